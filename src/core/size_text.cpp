#include "src/core/size_text.h"

#include <fmt/format.h>

#include <array>

namespace carillon {

std::string size_text(double bytes) {
  constexpr std::array units{"bytes", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit) bytes /= 1000;
  if (unit == 0) return fmt::format("{} {}", bytes, units[unit]);
  return bytes < 10 ? fmt::format("{:.2f} {}", bytes, units[unit]) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace carillon
