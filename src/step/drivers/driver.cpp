#include "src/step/drivers/driver.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "carillon/core/error.h"
#include "src/core/has_cuda.h"
#include "src/optim/update_factors.h"

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

namespace {

constexpr std::uint32_t blocks = 4;

}  // namespace

StepRingForm ring_form(std::size_t batch_size, std::size_t image_bytes, std::uint32_t passes) {
  constexpr std::uint32_t max_passes = 16;
  const std::uint32_t max_block = std::max(max_passes / passes, 1u);
  constexpr std::size_t max_staging_bytes = std::size_t{128} << 20;
  const std::size_t bytes_of_single_steps = blocks * batch_size * image_bytes;
  const std::size_t fitting = max_staging_bytes / std::max<std::size_t>(bytes_of_single_steps, 1);
  return {std::bit_floor(std::clamp(static_cast<std::uint32_t>(fitting), 1u, max_block)), blocks};
}

StepRingForm ring_of(std::uint32_t slots) { return {slots / blocks, blocks}; }

void StepQueue::push(const StepRequest& request, bool at_once) {
  if (request.before_update) flush();
  complete_before(pushed_ + 1 - std::min<std::uint64_t>(pushed_ + 1, form_.capacity()));
  engine_.write(slot_of(pushed_), request);
  numbers_.push_back(request.step);
  ++pushed_;
  if (request.before_update || at_once || pushed_ - launched_ == form_.block) launch_pushed(request.before_update);
}

std::optional<StepResult> StepQueue::next_result(Results wanted) {
  if (wanted == Results::all) flush();
  const std::uint64_t may_be_under_way =
      wanted == Results::all ? 0 : static_cast<std::uint64_t>(form_.block) * (form_.blocks - 1);
  complete_before(pushed_ - std::min(pushed_, may_be_under_way));
  if (results_.empty()) return std::nullopt;
  const StepResult result = results_.front();
  results_.pop_front();
  return result;
}

void StepQueue::launch_pushed(const std::function<void()>& before_update) {
  if (launched_ == pushed_) return;
  const auto count = static_cast<std::uint32_t>(pushed_ - launched_);
  engine_.launch(slot_of(launched_), count, before_update);
  launches_.push_back({launched_, count, std::chrono::steady_clock::now()});
  launched_ = pushed_;
}

void StepQueue::complete_before(std::uint64_t index) {
  std::uint64_t end = completed_;
  auto begin = last_end_;
  while (!launches_.empty() && launches_.front().first < index) {
    engine_.wait_for_oldest();
    if (end == completed_) begin = std::max(begin, launches_.front().enqueued);
    end = launches_.front().first + launches_.front().count;
    launches_.pop_front();
  }
  if (end == completed_) return;
  last_end_ = std::chrono::steady_clock::now();
  const auto of_step = (last_end_ - begin) / static_cast<std::int64_t>(end - completed_);
  for (auto finished = begin + of_step; completed_ < end; ++completed_, finished += of_step) {
    const StepOutcome outcome = engine_.outcome(slot_of(completed_));
    results_.push_back(
        {.step = numbers_.front(),
         .loss = outcome.loss,
         .l2_loss = outcome.l2_loss,
         .gradient_norm = outcome.gradient_norm < 0.0 ? std::nullopt : std::optional(outcome.gradient_norm),
         .sync_requested = outcome.sync_requests > 0.0f,
         .finished = finished});
    numbers_.pop_front();
  }
}

}  // namespace carillon
