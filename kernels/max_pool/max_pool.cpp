#include "kernels/max_pool/max_pool.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class MaxPoolDefinition final : public OpDefinition {
 public:
  explicit MaxPoolDefinition(const MaxPoolGeometry& geometry, bool has_biases = false)
      : geometry_(geometry), has_biases_(has_biases) {}
  std::string_view type() const override { return "max_pool"; }
  BackwardNeeds backward_needs() const override { return {.inputs = false, .outputs = geometry_.relu}; }
  std::shared_ptr<const OpDefinition> with_relu_before() const {
    if (has_biases_) return nullptr;
    MaxPoolGeometry with_relu = geometry_;
    with_relu.relu = true;
    return std::make_shared<MaxPoolDefinition>(with_relu);
  }
  std::shared_ptr<const OpDefinition> with_biases_before() const {
    const auto& [vertical, horizontal, relu] = geometry_;
    const bool has_fewer_elements = vertical.output * horizontal.output < vertical.input * horizontal.input;
    return has_biases_ || !has_fewer_elements ? nullptr : std::make_shared<MaxPoolDefinition>(geometry_, true);
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_max_pool_cpu(geometry_, context, tensors); },
        [&] { return make_max_pool_cuda(geometry_, context, tensors); });
  }

 private:
  MaxPoolGeometry geometry_;
  bool has_biases_;
};

const OpTraits max_pool_traits{
    .with_relu_before = trait<&MaxPoolDefinition::with_relu_before>,
    .with_biases_before = trait<&MaxPoolDefinition::with_biases_before>,
    .samples_are_independent = true,
};

}  // namespace

const OpType max_pool_op = op_type<MaxPoolParams, max_pool>("max_pool");

Value max_pool(Graph& graph, const std::string& name, Value x, const MaxPoolParams& params) {
  const Shape input = graph.shape(x);
  if (input.rank() != 4) fail(ExitCode::failed, "max_pool {}: input {} is not [n, h, w, c]", name, input.text());
  const auto slide_along = [&](std::int64_t extent) {
    if (params.window == 0) return slide(extent, extent, extent, Padding::valid);
    return slide(extent, params.window, params.stride, params.padding);
  };
  const MaxPoolGeometry geometry{.vertical = slide_along(input[1]), .horizontal = slide_along(input[2]), .relu = false};
  const std::int64_t window = std::max(geometry.vertical.window, geometry.horizontal.window);
  if (window > 16) fail(ExitCode::failed, "max_pool {}: window {} is larger than 16", name, window);
  return graph.add_op({.name = name,
                       .definition = std::make_shared<MaxPoolDefinition>(geometry),
                       .inputs = {x},
                       .traits = max_pool_traits,
                       .type = &max_pool_op,
                       .attributes = attributes_of(params)},
                      {input[0], geometry.vertical.output, geometry.horizontal.output, input[3]});
}

}  // namespace carillon
