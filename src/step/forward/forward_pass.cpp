#include "src/step/forward/forward_pass.h"

#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "src/core/has_cuda.h"
#include "src/step/forward/forward_kernels.h"

namespace carillon {
namespace {

class CpuForwardPass final : public ForwardPass {
 public:
  CpuForwardPass(const ForwardContext& context, const ForwardSettings& settings)
      : device_(context.device),
        image_(settings.image),
        averages_views_(settings.averages_views),
        input_stage_(make_input_stage(
            device_,
            {.batch_size = static_cast<std::size_t>(context.built.graph.batch_size()), .image_bytes = image_.bytes()})),
        output_(context.built.output),
        executable_(context.built.graph, {context.device, context.parameters, context.buffers, input_stage_->inputs()},
                    false, {output_}) {}

  bool keeps_records() const override { return false; }

  void enqueue(const Batch& batch) override {
    check(!holds_outputs_, "the outputs of the batch before must be taken first");
    outputs_ = averages_views_ ? mean_outputs_of_views(batch) : outputs_of(batch);
    holds_outputs_ = true;
  }

  std::optional<std::span<const float>> next_outputs(Results /*wanted*/) override {
    if (!std::exchange(holds_outputs_, false)) return std::nullopt;
    return outputs_;
  }

 private:
  std::vector<float> outputs_of(const Batch& batch) {
    input_stage_->write(0, {.batch = batch});
    executable_.forward(device_.stream());
    return download_floats(device_, executable_.tensor(output_));
  }

  std::vector<float> mean_outputs_of_views(const Batch& batch) {
    const std::size_t count = batch.images.size(), bytes = image_.bytes();
    std::vector<std::uint8_t> memory(count * bytes);
    std::vector<const std::uint8_t*> images;
    for (std::size_t i = 0; i < count; ++i) images.push_back(memory.data() + i * bytes);
    Batch seen = batch;
    seen.images = images;
    std::vector<float> means;
    for (const ImageView& view : augmented_views) {
      for (std::size_t i = 0; i < count; ++i) write_view(view, image_, batch.images[i], memory.data() + i * bytes);
      const std::vector<float> outputs = outputs_of(seen);
      means.resize(outputs.size());
      for (std::size_t i = 0; i < outputs.size(); ++i) means[i] += view.weight * outputs[i];
    }
    return means;
  }

  Device& device_;
  ImageShape image_;
  bool averages_views_;
  std::unique_ptr<InputStage> input_stage_;
  Value output_;
  Executable executable_;
  std::vector<float> outputs_;
  bool holds_outputs_ = false;
};

}  // namespace

std::unique_ptr<ForwardPass> make_forward_pass(const ForwardContext& context, const ForwardSettings& settings) {
  if (context.device.kind() == DeviceKind::cpu) return std::make_unique<CpuForwardPass>(context, settings);
  if constexpr (has_cuda) return make_cuda_forward_pass(context, settings);
  fail(ExitCode::failed, "device {} requires a CUDA build", context.device.name());
}

}  // namespace carillon
