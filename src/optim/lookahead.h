// Lookahead: slow copies of variables and buffers, to which the values return every few updates.
//
//   s <- s + (1 - a) * (w - s)                after t = every, 2 * every, ... updates
//   w <- s                                    a = decay * (min(t, steps) / steps)^power
//
// After update number `steps`, the last update of the training, w <- s even if t is not a multiple of `every`. w stands
// for every variable, including frozen variables, and for every buffer of the network (graph/buffers.h). Power 0 is the
// classic form: Zhang, Lucas, Hinton, Ba, "Lookahead optimizer: k steps forward, 1 step back", 2019, with alpha = 1 -
// decay. cifar10-airbench (legacy/airbench94.py) uses `every` 5, decay 0.95^5 and power 3.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "carillon/graph/buffers.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/graph/step_end.h"

namespace carillon {

/// The factor 1 - a, if a lookahead is due when `updates` updates are applied. 0: the slow copies stay unchanged, and
/// the values return to them. Negative: no lookahead is due. Errors: failed (power without steps).
double lookahead_part(const LookaheadSettings& settings, std::int64_t updates);

/// The slot of the variables' slow copies. Optimisers with a lookahead have it.
inline constexpr std::string_view lookahead_slot = "lookahead";

/// The lookahead of a network's buffers. The optimiser applies the lookahead of the variables. Does nothing if the
/// settings have no lookahead or the network has no buffers.
class BufferLookahead {
 public:
  /// `buffers`, `device` and `inputs` outlive this.
  BufferLookahead(const LookaheadSettings& settings, const BufferStore& buffers, Device& device,
                  const StepInputs& inputs);

  /// The slow copies. Empty without a lookahead.
  const BufferStore& slow() const { return slow_; }
  /// Sets the slow copies to the buffers' present values.
  void begin();
  /// As `begin`, but only for buffers that no op changes (AcrossRanks::equal). Afterwards these buffers equal their
  /// slow copies, so lookaheads do not change them either.
  void begin_equal();
  /// Enqueues the step's lookahead, which runs if `end` allows the update. Call it after the forward pass and before
  /// the step's last kernel.
  void enqueue(const StepEnd& end);

 private:
  const BufferStore& buffers_;
  Device& device_;
  const StepInputs& inputs_;
  BufferStore slow_;
};

}  // namespace carillon
