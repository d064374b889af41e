#include "src/comm/transport/group.h"

#include <algorithm>

namespace carillon {

Slice reduction_slice(std::size_t count, int rank, int size) {
  constexpr std::size_t unit = 16;
  const std::size_t units = (count + unit - 1) / unit;
  const auto edge = [&](int part) { return std::min(units * part / size * unit, count); };
  return {edge(rank), edge(rank + 1)};
}

}  // namespace carillon
