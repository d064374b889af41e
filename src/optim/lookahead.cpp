#include "src/optim/lookahead.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "src/core/has_cuda.h"
#include "src/optim/element_kernels.h"

namespace carillon {

double lookahead_part(const LookaheadSettings& settings, std::int64_t updates) {
  constexpr double none = -1.0;
  if (settings.every == 0) return none;
  if (updates % settings.every != 0) return updates == settings.steps ? 0.0 : none;
  if (settings.power == 0.0) return 1.0 - settings.decay;
  check(settings.steps > 0, "a lookahead with a power requires the number of steps");
  const double done = static_cast<double>(std::min(updates, settings.steps)) / static_cast<double>(settings.steps);
  return 1.0 - settings.decay * std::pow(done, settings.power);
}

BufferLookahead::BufferLookahead(const LookaheadSettings& settings, const BufferStore& buffers, Device& device,
                                 const StepInputs& inputs)
    : buffers_(buffers),
      device_(device),
      inputs_(inputs),
      slow_(settings.every > 0 ? buffers.specs() : std::vector<BufferSpec>(), device) {}

void BufferLookahead::begin() {
  if (!slow_.specs().empty()) copy_floats(device_, buffers_.values(), slow_.values());
}

void BufferLookahead::begin_equal() {
  for (std::size_t i = 0; i < slow_.specs().size(); ++i) {
    if (slow_.specs()[i].across_ranks != AcrossRanks::equal) continue;
    const int buffer = static_cast<int>(i);
    copy_floats(device_, buffers_.tensor(buffer).floats(), slow_.tensor(buffer).floats());
  }
}

void BufferLookahead::enqueue(const StepEnd& end) {
  if (slow_.specs().empty()) return;
  const std::span<float> values = buffers_.values(), slow = slow_.values();
  if (device_.kind() == DeviceKind::cpu) {
    if (!end.allows_update() || !looks_ahead(inputs_.scalars)) return;
    for (std::size_t i = 0; i < values.size(); ++i) look_ahead(inputs_.scalars, values[i], slow[i]);
    return;
  }
  if constexpr (has_cuda) {
    return enqueue_lookahead_cuda({values.data(), slow.data(), inputs_.table, end}, values.size(), device_.stream());
  }
  fail(ExitCode::failed, "device {} requires a CUDA build", device_.name());
}

}  // namespace carillon
