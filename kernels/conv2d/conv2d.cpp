#include "kernels/conv2d/conv2d.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class Conv2dDefinition final : public OpDefinition {
 public:
  explicit Conv2dDefinition(const Conv2dGeometry& geometry) : geometry_(geometry) {}
  const Conv2dGeometry& geometry() const { return geometry_; }
  std::string_view type() const override { return "conv2d"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = geometry_.relu}; }
  bool takes_samples_apart() const override { return true; }
  std::shared_ptr<const OpDefinition> with_relu_behind() const override {
    Conv2dGeometry with_relu = geometry_;
    with_relu.relu = true;
    return std::make_shared<Conv2dDefinition>(with_relu);
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_conv2d_cpu(geometry_, context, tensors); },
        [&] { return make_conv2d_cuda(geometry_, context, tensors); });
  }

 private:
  Conv2dGeometry geometry_;
};

}  // namespace

Value conv2d(Graph& graph, const std::string& name, Value x, const Conv2dParams& params) {
  const Shape input = graph.shape(x);
  if (input.rank() != 4) fail(ExitCode::failed, "conv2d {}: input {} is not [n, h, w, c]", name, input.text());
  const Conv2dGeometry geometry{.vertical = slide(input[1], params.kernel, params.stride, params.padding),
                                .horizontal = slide(input[2], params.kernel, params.stride, params.padding),
                                .relu = false};
  const int weights = graph.add_parameter(
      {name + "/weights", {params.kernel, params.kernel, input[3], params.filters}, params.weights, params.l2_factor});
  const int biases = graph.add_parameter({name + "/biases", {params.filters}, params.biases, 0.0f});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<Conv2dDefinition>(geometry),
                       .inputs = {x},
                       .parameters = {weights, biases}},
                      {input[0], geometry.vertical.output, geometry.horizontal.output, params.filters});
}

std::vector<std::string> winograd_convolutions(const Graph& graph, ConvolutionMethod method) {
  std::vector<std::string> names;
  for (const Graph::Node& node : graph.nodes()) {
    const auto* convolution = dynamic_cast<const Conv2dDefinition*>(node.definition.get());
    if (convolution == nullptr) continue;
    const Shape& filters = graph.parameters()[node.parameters.at(0)].shape;
    const Shape& y = graph.values()[node.outputs.at(0)].shape;
    if (takes_winograd(convolution->geometry(), method, filters, y)) names.push_back(node.name);
  }
  return names;
}

}  // namespace carillon
