#include "kernels/avg_pool/avg_pool.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class AvgPoolDefinition final : public OpDefinition {
 public:
  explicit AvgPoolDefinition(const AvgPoolGeometry& geometry) : geometry_(geometry) {}
  std::string_view type() const override { return "avg_pool"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_avg_pool_cpu(geometry_, context, tensors); },
        [&] { return make_avg_pool_cuda(geometry_, context, tensors); });
  }

 private:
  AvgPoolGeometry geometry_;
};

const OpTraits avg_pool_traits{.samples_are_independent = true};

/// The shape of `x`, [batch, height, width, channels].
Shape image_shape(const Graph& graph, const std::string& name, Value x) {
  const Shape shape = graph.shape(x);
  if (shape.rank() != 4) fail(ExitCode::failed, "avg_pool {}: input {} is not [n, h, w, c]", name, shape.text());
  return shape;
}

Graph::NewOp pool_op(const std::string& name, Value x, const AvgPoolGeometry& geometry, const OpType& type) {
  return {.name = name,
          .definition = std::make_shared<AvgPoolDefinition>(geometry),
          .inputs = {x},
          .traits = avg_pool_traits,
          .type = &type};
}

}  // namespace

const OpType avg_pool_op = op_type<AvgPoolParams, avg_pool>("avg_pool");
const OpType global_avg_pool_op = op_type<global_avg_pool>("global_avg_pool");

Value avg_pool(Graph& graph, const std::string& name, Value x, const AvgPoolParams& params) {
  const Shape input = image_shape(graph, name, x);
  const AvgPoolGeometry geometry{.vertical = slide(input[1], params.window, params.stride, params.padding),
                                 .horizontal = slide(input[2], params.window, params.stride, params.padding)};
  Graph::NewOp op = pool_op(name, x, geometry, avg_pool_op);
  op.attributes = attributes_of(params);
  return graph.add_op(std::move(op), {input[0], geometry.vertical.output, geometry.horizontal.output, input[3]});
}

Value global_avg_pool(Graph& graph, const std::string& name, Value x) {
  const Shape input = image_shape(graph, name, x);
  const AvgPoolGeometry geometry{.vertical = slide(input[1], input[1], 1, Padding::valid),
                                 .horizontal = slide(input[2], input[2], 1, Padding::valid)};
  return graph.add_op(pool_op(name, x, geometry, global_avg_pool_op), {input[0], input[3]});
}

}  // namespace carillon
