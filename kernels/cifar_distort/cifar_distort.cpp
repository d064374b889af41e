#include "kernels/cifar_distort/cifar_distort.h"

#include "kernels/cifar_distort/cifar_distort_math.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class CifarDistortDefinition final : public OpDefinition {
 public:
  explicit CifarDistortDefinition(CifarDistortParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "cifar_distort"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_cifar_distort_cpu(params_, context, tensors); },
        [&] { return make_cifar_distort_cuda(params_, context, tensors); });
  }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    const std::int64_t height = params_.source[1], width = params_.source[2];
    const std::int64_t top = (height - params_.crop_height) / 2, left = (width - params_.crop_width) / 2;
    const std::string begin = operators.constant({top, left});
    const std::string end = operators.constant({top + params_.crop_height, left + params_.crop_width});
    const std::string crop = operators.add("Slice", {operands.inputs.at(0), begin, end, operators.constant({2, 3})});
    const auto mean = [&](const std::string& x) {
      return operators.add("ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{1, 2, 3}}});
    };
    const std::string centred = operators.add("Sub", {crop, mean(crop)});
    const std::string deviation = operators.add("Sqrt", {mean(operators.add("Mul", {centred, centred}))});
    const auto count = static_cast<double>(params_.source[0] * params_.crop_height * params_.crop_width);
    const std::string least = operators.constant({}, {static_cast<float>(1.0 / std::sqrt(count))});
    return operators.add("Div", {centred, operators.add("Max", {deviation, least})});
  }

 private:
  CifarDistortParams params_;
};

const OpTraits cifar_distort_traits{.pads_channels = true, .to_onnx = trait<&CifarDistortDefinition::to_onnx>};

}  // namespace

Value cifar_distort(Graph& graph, const std::string& name, const CifarDistortParams& params) {
  const Shape& source = params.source;
  check(source.rank() == 3 && source[0] >= 1 && source[0] <= max_image_channels,
        "cifar_distort requires a source of [channels, height, width] with 1 to 4 channels");
  check(params.crop_height >= 1 && params.crop_height <= source[1] && params.crop_width >= 1 &&
            params.crop_width <= source[2],
        "cifar_distort requires a crop that fits into its source");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<CifarDistortDefinition>(params),
                       .inputs = {},
                       .traits = cifar_distort_traits},
                      {graph.batch_size(), params.crop_height, params.crop_width, source[0]});
}

}  // namespace carillon
