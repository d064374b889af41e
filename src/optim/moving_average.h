// The decay of the variables' exponential moving averages, with TensorFlow's warm-up.
#pragma once

#include <algorithm>
#include <cstdint>

namespace carillon {

/// d in a <- a - (1 - d) * (a - w), after t applied updates: min(decay, (1 + t) / (10 + t)).
inline double moving_average_decay(double decay, std::int64_t updates_applied) {
  const double t = static_cast<double>(updates_applied);
  return std::min(decay, (1.0 + t) / (10.0 + t));
}

}  // namespace carillon
