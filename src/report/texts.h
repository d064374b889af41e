// Texts that several reports have.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>

namespace carillon {

/// The name of output `i` (class, label or number); its index if `names` does not have it.
inline std::string name_or_number(std::span<const std::string> names, std::size_t i) {
  return i < names.size() ? names[i] : std::to_string(i);
}

/// With 4 decimals; small and large numbers with 5 digits. NaN: a dash.
inline std::string score_text(double value) {
  constexpr double small = 1e-3, large = 1e4;
  const double size = std::abs(value);
  if (std::isnan(value)) return "–";
  return size != 0.0 && (size < small || size >= large) ? fmt::format("{:.5g}", value) : fmt::format("{:.4f}", value);
}

/// "97.10 %"
inline std::string percent_text(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

}  // namespace carillon
