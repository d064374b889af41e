// The definition of scale_input, and the op on a CPU: gathers and converts in one pass.
#include "kernels/scale_input/scale_input.h"

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/element_pointer.h"

namespace carillon {
namespace {

CARILLON_SIMD void scale_row(const std::uint8_t* image, std::size_t count, float scale, ElementPointer out) {
  with_float_type(
      out.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        T* const y = out.as<T>();
        for (std::size_t i = 0; i < count; ++i) y[i] = stored_as<T>(scale * static_cast<float>(image[i]));
      });
}

class ScaleInputCpu final : public Op {
 public:
  ScaleInputCpu(float scale, const StepInputs& step, const Tensor& output)
      : scale_(scale), step_(step), output_(output) {}

  void forward(Stream& /*stream*/) override {
    const std::size_t row = static_cast<std::size_t>(output_.shape.elements_per_sample());
    const std::size_t batch = step_.batch.images.size();
    const ElementPointer out(output_);
    parallel_items(batch, row, elementwise_grain, [&](std::size_t first, std::size_t last) {
      for (std::size_t b = first; b < last; ++b) scale_row(step_.batch.images[b], row, scale_, out + b * row);
    });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  float scale_;
  const StepInputs& step_;
  Tensor output_;
};

class ScaleInputDefinition final : public OpDefinition {
 public:
  explicit ScaleInputDefinition(ScaleInputParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "scale_input"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<ScaleInputCpu>(params_.scale, *context.step, tensors.outputs.at(0)); },
        [&] { return make_scale_input_cuda(params_, context, tensors); });
  }

 private:
  ScaleInputParams params_;
};

}  // namespace

const OpType scale_input_op{
    .name = "scale_input",
    .input_count = 0,
    .reads_records = true,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      auto params = params_of<ScaleInputParams>(attributes);
      const ImageShape& image = graph.context().image;
      params.sample = {image.height, image.width, image.channels};
      return outputs_of(scale_input(graph, name, params));
    }};

Value scale_input(Graph& graph, const std::string& name, const ScaleInputParams& params) {
  std::vector<std::int64_t> extents = params.sample.extents();
  extents.insert(extents.begin(), graph.batch_size());
  const OpTraits traits{.pads_channels = params.sample.rank() == 3};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ScaleInputDefinition>(params),
                       .inputs = {},
                       .traits = traits,
                       .type = &scale_input_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

}  // namespace carillon
