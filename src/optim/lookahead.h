// Lookahead: slow copies of all that training changes, to which the values return every few updates.
//
//   s <- s + (1 - a) * (w - s)                           after update `every`, 2 every, ..., t updates then applied
//   w <- s                                               a = decay * (min(t, steps) / steps)^power
//
// After update `steps`, the last of a training that says it, w <- s where no s was due. The values are variables,
// frozen ones too, and what the network keeps beside them (graph/buffers.h). Power 0 is the classic form: Zhang, Lucas,
// Hinton, Ba, "Lookahead optimizer: k steps forward, 1 step back", 2019, whose alpha is 1 - decay; every 5, decay
// 0.95^5, power 3 that of cifar10-airbench, legacy/airbench94.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "carillon/graph/buffers.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/graph/step_end.h"

namespace carillon {

/// 1 - a, where slow copies are due once `updates` are applied; 0: values return to them as they are; below 0: nothing
/// is done.
double lookahead_part(const LookaheadSettings& settings, std::int64_t updates);

/// The slot of the variables' slow copies, where there is a lookahead.
inline constexpr std::string_view lookahead_slot = "lookahead";

/// The lookahead of a network's buffers; the variables' is the optimiser's.
class BufferLookahead {
 public:
  /// Slow copies as the buffers begin. All arguments outlive this.
  BufferLookahead(const BufferStore& buffers, Device& device, const StepInputs& inputs);

  const BufferStore& slow() const { return slow_; }
  /// Enqueues what the step in hand makes of buffers and slow copies, where `end` allows it; after the step's forward
  /// pass, before its last kernel.
  void enqueue(const StepEnd& end, Device& device);

 private:
  const BufferStore& buffers_;
  const StepInputs& inputs_;
  BufferStore slow_;
};

}  // namespace carillon
