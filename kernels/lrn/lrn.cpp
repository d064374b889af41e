#include "kernels/lrn/lrn.h"

#include <algorithm>

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class LrnDefinition final : public OpDefinition {
 public:
  explicit LrnDefinition(const LrnParams& params) : params_(params) {}
  std::string_view type() const override { return "lrn"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_lrn_cpu(params_, context, tensors); },
        [&] { return make_lrn_cuda(params_, context, tensors); });
  }

 private:
  LrnParams params_;
};

const OpTraits lrn_traits{.samples_are_independent = true};

}  // namespace

const OpType lrn_op = op_type<LrnParams, lrn>("lrn");

Value lrn(Graph& graph, const std::string& name, Value x, const LrnParams& params) {
  check(params.depth_radius >= 0 && params.bias > 0.0f && params.alpha >= 0.0f,
        "lrn requires depth_radius >= 0, bias > 0 and alpha >= 0");
  LrnParams limited = params;  // channels beyond the first and the last one count as 0
  limited.depth_radius =
      static_cast<int>(std::min<std::int64_t>(params.depth_radius, graph.shape(x).extents().back() - 1));
  return graph.add_op({.name = name,
                       .definition = std::make_shared<LrnDefinition>(limited),
                       .inputs = {x},
                       .traits = lrn_traits,
                       .type = &lrn_op,
                       .attributes = attributes_of(params)},
                      graph.shape(x));
}

}  // namespace carillon
