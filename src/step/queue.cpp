#include "src/step/queue.h"

#include <algorithm>
#include <bit>

namespace carillon {

StepRingForm ring_form(std::size_t batch_size, std::size_t image_bytes) {
  constexpr std::uint32_t blocks = 4, max_block = 16;
  constexpr std::size_t max_staging_bytes = std::size_t{128} << 20;
  const std::size_t bytes_of_single_steps = blocks * batch_size * image_bytes;
  const std::size_t fitting = max_staging_bytes / std::max<std::size_t>(bytes_of_single_steps, 1);
  return {std::bit_floor(std::clamp(static_cast<std::uint32_t>(fitting), 1u, max_block)), blocks};
}

void StepQueue::push(const StepRequest& request, bool at_once) {
  if (request.before_update) flush();
  while (!launches_.empty() && launches_.front().first + form_.capacity() <= pushed_) complete_oldest();
  engine_.write(slot_of(pushed_), request);
  numbers_.push_back(request.step);
  ++pushed_;
  if (request.before_update || at_once || pushed_ % form_.block == 0) launch_pushed(request.before_update);
}

std::optional<StepResult> StepQueue::next_result(Results wanted) {
  if (wanted == Results::all) flush();
  const std::uint64_t may_be_under_way =
      wanted == Results::all ? 0 : static_cast<std::uint64_t>(form_.block) * (form_.blocks - 1);
  while (!launches_.empty() && pushed_ - launches_.front().first > may_be_under_way) complete_oldest();
  if (results_.empty()) return std::nullopt;
  const StepResult result = results_.front();
  results_.pop_front();
  return result;
}

void StepQueue::launch_pushed(const std::function<void()>& before_update) {
  if (launched_ == pushed_) return;
  const auto count = static_cast<std::uint32_t>(pushed_ - launched_);
  engine_.launch(slot_of(launched_), count, before_update);
  launches_.push_back({launched_, count});
  launched_ = pushed_;
}

void StepQueue::complete_oldest() {
  engine_.wait_for_oldest();
  const Launch launch = launches_.front();
  launches_.pop_front();
  for (std::uint64_t index = launch.first; index < launch.first + launch.count; ++index) {
    const StepOutcome outcome = engine_.outcome(slot_of(index));
    results_.push_back(
        {.step = numbers_.front(), .cross_entropy = outcome.cross_entropy, .pause_requested = outcome.pause > 0.0f});
    numbers_.pop_front();
  }
}

}  // namespace carillon
