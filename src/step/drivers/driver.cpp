#include "src/step/drivers/driver.h"

#include <chrono>
#include <utility>

#include "carillon/core/error.h"
#include "src/core/has_cuda.h"
#include "src/optim/norms.h"
#include "src/step/drivers/queue.h"

namespace carillon {
namespace {

class CpuStepDriver final : public StepDriver {
 public:
  explicit CpuStepDriver(const DrivenTower& tower) : tower_(tower) {}

  void enqueue(const StepRequest& request) override {
    tower_.input_stage.write(0, request);
    const double l2 = request.reports_l2 ? l2_loss(tower_.step.parameters()) : 0.0;
    tower_.step.enqueue_gradients(request.before_update ? MeanGradients::readable : MeanGradients::update_only,
                                  request.gradient_complete);
    const auto backward_done = std::chrono::steady_clock::now();
    tower_.step.enqueue_means();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - backward_done;
    if (request.before_update) request.before_update();
    tower_.step.enqueue_update();
    const std::span<const float> sums = tower_.step.parameters().step_sums();
    result_ = {.step = request.step,
               .loss = sums[loss_sum],
               .l2_loss = l2,
               .gradient_norm = tower_.step.gradient_norm(),
               .sync_requested = sums[sync_sum] > 0.0f,
               .reduce_seconds = waited.count(),
               .finished = std::chrono::steady_clock::now()};
  }

  void flush() override {}

  std::optional<StepResult> next_result(Results /*wanted*/) override { return std::exchange(result_, std::nullopt); }
  const std::vector<std::string>& captured_nodes() const override { return no_nodes_; }

 private:
  DrivenTower tower_;
  std::optional<StepResult> result_;
  std::vector<std::string> no_nodes_;
};

}  // namespace

std::uint32_t input_stage_slots(DeviceKind device, std::size_t batch_size, std::size_t image_bytes,
                                std::uint32_t passes) {
  return device == DeviceKind::cpu ? 1 : ring_form(batch_size, image_bytes, passes).capacity();
}

std::unique_ptr<StepDriver> make_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture) {
  if (tower.device.kind() == DeviceKind::cpu) return std::make_unique<CpuStepDriver>(tower);
  if constexpr (has_cuda) return make_cuda_step_driver(tower, form, capture);
  fail(ExitCode::failed, "device {} requires a CUDA build", tower.device.name());
}

}  // namespace carillon
