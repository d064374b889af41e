#include "src/step/update/sharded_update.h"

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {

ShardedUpdate::ShardedUpdate(SharedHostMemory& memory, int towers, const ParameterStore& parameters,
                             Optimizer& optimizer)
    : memory_(memory),
      parameters_(parameters),
      optimizer_(optimizer),
      alone_(towers == 1),
      sums_(parameters.step_sums().size()) {
  check(optimizer.updates_ranges(), "an optimiser that updates all at once was given common memory");
}

void ShardedUpdate::begin(const StepEnd& end) { allowed_ = alone_ && end.allows_update(); }

void ShardedUpdate::add(int parameter) {
  if (!allowed_) return;
  const std::size_t offset = parameters_.layout().offset(parameter);
  memory_.means_of(parameters_.gradient(parameter).floats(),
                   [&](std::size_t first, std::span<const float> means) { optimizer_.update(offset + first, means); });
}

void ShardedUpdate::finish() {
  if (alone_) return;
  memory_.meet();
  // Peers read this tower's sums until all meet again, so the means wait elsewhere.
  memory_.means_of(parameters_.step_sums(), [&](std::size_t first, std::span<const float> means) {
    std::ranges::copy(means, sums_.begin() + static_cast<std::ptrdiff_t>(first));
  });
  const bool allowed = StepEnd{sums_.data(), {}}.allows_update();
  if (allowed) {
    const Slice shard = memory_.shard(parameters_.layout().total());
    const std::span<const float> gradients = parameters_.gradients_and_sums();
    memory_.means_of(
        gradients.subspan(shard.begin, shard.end - shard.begin),
        [&](std::size_t first, std::span<const float> means) { optimizer_.update(shard.begin + first, means); });
  }
  memory_.meet();
  if (allowed) memory_.gather(parameters_.values());
  std::ranges::copy(sums_, parameters_.step_sums().begin());
}

void ShardedUpdate::update_from_means(const StepEnd& end) {
  memory_.meet();  // a tower may have looked at the old slots until now
  if (end.allows_update()) {
    const Slice shard = memory_.shard(parameters_.layout().total());
    update_on_all_threads(optimizer_, shard.begin,
                          parameters_.gradients_and_sums().subspan(shard.begin, shard.end - shard.begin));
  }
  memory_.meet();
  if (end.allows_update()) memory_.gather(parameters_.values());
}

}  // namespace carillon
