#include "kernels/broadcast/broadcast.h"

#include "kernels/broadcast/broadcast_axes.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class BroadcastDefinition final : public OpDefinition {
 public:
  explicit BroadcastDefinition(BroadcastFunction function) : function_(function) {}
  std::string_view type() const override { return function_ == BroadcastFunction::add ? "add" : "multiply"; }
  BackwardNeeds backward_needs() const override { return {.inputs = function_ == BroadcastFunction::multiply}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_broadcast_cpu(function_, tensors); },
        [&] { return make_broadcast_cuda(function_, tensors); });
  }

 private:
  BroadcastFunction function_;
};

Value add_op_of(Graph& graph, const std::string& name, Value a, Value b, BroadcastFunction function,
                const OpType& type) {
  Shape shape = broadcast_shape(graph.shape(a), graph.shape(b));
  broadcast_axes(graph.shape(a), graph.shape(b));  // refuses too many axes
  return graph.add_op({.name = name,
                       .definition = std::make_shared<BroadcastDefinition>(function),
                       .inputs = {a, b},
                       .traits = {.samples_are_independent = true},
                       .type = &type},
                      std::move(shape));
}

}  // namespace

const OpType multiply_op = op_type<multiply>("multiply");

Value multiply(Graph& graph, const std::string& name, Value a, Value b) {
  return add_op_of(graph, name, a, b, BroadcastFunction::multiply, multiply_op);
}

Value add_broadcast(Graph& graph, const std::string& name, Value a, Value b, const OpType& type) {
  return add_op_of(graph, name, a, b, BroadcastFunction::add, type);
}

}  // namespace carillon
