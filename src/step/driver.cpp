#include "carillon/step/driver.h"

#include "src/step/cuda_driver.h"

namespace carillon {
namespace {

class CpuStepDriver final : public StepDriver {
 public:
  StepInputs inputs() const override { return {}; }

  void enqueue_sums(const Tensor& loss, std::span<float> sums, Stream& /*stream*/) override {
    sums_ = sums;
    sums[cross_entropy_sum] = loss.floats()[0];
    sums[stop_sum] = request_stop_ ? 1.0f : 0.0f;
  }

  void step(StepInputs& inputs, const StepRequest& request, const Enqueue& enqueue) override {
    inputs.batch = request.batch;
    inputs.update = request.update;
    request_stop_ = request.request_stop;
    enqueue(request.before_update);
    result_ = {
        .step = request.step, .cross_entropy = sums_[cross_entropy_sum], .stop_requested = sums_[stop_sum] > 0.0f};
  }

  void flush() override {}

  std::optional<StepResult> take_result(bool /*all*/) override { return std::exchange(result_, std::nullopt); }

 private:
  bool request_stop_ = false;
  std::span<float> sums_;
  std::optional<StepResult> result_;
};

class CpuBatchFeed final : public BatchFeed {
 public:
  StepInputs inputs() const override { return {}; }
  void set(StepInputs& inputs, const Batch& batch) override { inputs.batch = batch; }
};

}  // namespace

std::unique_ptr<StepDriver> make_step_driver(Device& device, Communicator& communicator,
                                             const StepDriverSettings& settings) {
  if (device.kind() == DeviceKind::cpu) return std::make_unique<CpuStepDriver>();
  if constexpr (has_cuda) return make_cuda_step_driver(device, communicator, settings);
  fail(ExitCode::failed, "this build cannot drive device {}", device.name());
}

std::unique_ptr<BatchFeed> make_batch_feed(Device& device, std::size_t batch_size, std::size_t image_bytes) {
  if (device.kind() == DeviceKind::cpu) return std::make_unique<CpuBatchFeed>();
  if constexpr (has_cuda) return make_cuda_batch_feed(device, batch_size, image_bytes);
  fail(ExitCode::failed, "this build cannot feed device {}", device.name());
}

}  // namespace carillon
