// symmetric_beta: an exact draw from the Beta(a, a) distribution, for any a > 0, from two words, without rejection.
//
//   T = sqrt(2 a (U^(-1/a) - 1)) cos(2 pi V)            Student's distribution with 2 a degrees of freedom
//   X = 1/2 + T / (2 sqrt(2 a + T^2))                   Beta(a, a); U, V uniform in (0, 1)
//
// Computed in float64 from q = U^(1/a), because T is infinite if q is 0. Sources: Bailey, "Polar generation of random
// variates with the t-distribution", 1994; Devroye, "Random variate generation in one line of code", 1996.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "carillon/core/host_device.h"

namespace carillon {

/// Returns a number from 0 to 1. `u`, `v`: uniform, independent.
CARILLON_HOST_DEVICE inline double symmetric_beta(double a, std::uint32_t u, std::uint32_t v) {
  const auto inside = [](std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; };
  const double log_q = std::log(inside(u)) / a, cosine = std::cos(2.0 * std::numbers::pi * inside(v));
  const double numerator = -std::expm1(log_q) * cosine * cosine;  // (1 - q) cos^2
  const double distance = std::sqrt(numerator / (std::exp(log_q) + numerator));
  return cosine < 0.0 ? 0.5 - 0.5 * distance : 0.5 + 0.5 * distance;
}

}  // namespace carillon
