#include "kernels/depthwise_conv2d/depthwise_conv2d.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class DepthwiseConv2dDefinition final : public OpDefinition {
 public:
  explicit DepthwiseConv2dDefinition(const DepthwiseGeometry& geometry) : geometry_(geometry) {}
  std::string_view type() const override { return "depthwise_conv2d"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::shared_ptr<const OpDefinition> accumulating(DeviceKind device, DType /*type*/) const {
    if (!can_accumulate(device)) return nullptr;
    DepthwiseGeometry geometry = geometry_;
    geometry.accumulates_dx = true;
    return std::make_shared<DepthwiseConv2dDefinition>(geometry);
  }
  std::optional<int> output_shares_input(int output) const override {
    return geometry_.accumulates_dx && output == 1 ? std::optional(0) : std::nullopt;
  }
  std::optional<int> gradient_shares_output(int /*input*/) const override {
    return geometry_.accumulates_dx ? std::optional(1) : std::nullopt;
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!geometry_.accumulates_dx || can_accumulate(context.device->kind()),
          "only a depthwise convolution with stride 1 on a GPU can add to a gradient");
    return on_device(
        context, [&] { return make_depthwise_conv2d_cpu(geometry_, context, tensors); },
        [&] { return make_depthwise_conv2d_cuda(geometry_, context, tensors); });
  }

 private:
  bool can_accumulate(DeviceKind device) const { return device == DeviceKind::cuda && geometry_.vertical.stride == 1; }

  DepthwiseGeometry geometry_;
};

const OpTraits depthwise_conv2d_traits{.accumulating = trait<&DepthwiseConv2dDefinition::accumulating>,
                                       .samples_are_independent = true};

}  // namespace

const OpType depthwise_conv2d_op = op_type<DepthwiseConv2dParams, depthwise_conv2d>("depthwise_conv2d");

Value depthwise_conv2d(Graph& graph, const std::string& name, Value x, const DepthwiseConv2dParams& params) {
  const Shape input = graph.shape(x);
  if (input.rank() != 4)
    fail(ExitCode::failed, "depthwise_conv2d {}: input {} is not [n, h, w, c]", name, input.text());
  const DepthwiseGeometry geometry{.vertical = slide(input[1], params.kernel, params.stride, params.padding),
                                   .horizontal = slide(input[2], params.kernel, params.stride, params.padding)};
  const std::int64_t channels = input[3];
  std::vector<int> parameters{graph.add_parameter(
      {name + "/weights", {params.kernel, params.kernel, 1, channels}, params.weights, params.l2_factor})};
  if (params.biases) parameters.push_back(graph.add_parameter({name + "/biases", {channels}, *params.biases}));
  return graph.add_op({.name = name,
                       .definition = std::make_shared<DepthwiseConv2dDefinition>(geometry),
                       .inputs = {x},
                       .parameters = parameters,
                       .traits = depthwise_conv2d_traits,
                       .type = &depthwise_conv2d_op,
                       .attributes = attributes_of(params)},
                      {input[0], geometry.vertical.output, geometry.horizontal.output, channels});
}

}  // namespace carillon
