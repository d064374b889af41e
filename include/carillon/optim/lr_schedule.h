// Learning rate as a function of the step.
#pragma once

#include <cstdint>

namespace carillon {

/// rate(s) = initial * factor^(s / decay_steps), s = updates applied before this one; with `staircase` the exponent is
/// rounded down (TensorFlow's exponential_decay).
struct ExponentialDecay {
  double initial = 0.001;
  double factor = 1.0;
  double decay_steps = 1.0;
  bool staircase = false;

  double rate(std::int64_t step) const;
};

}  // namespace carillon
