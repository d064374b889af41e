// Images with padded channels, as a GPU's convolutions may prefer them.
#pragma once

#include <cstddef>
#include <vector>

namespace carillon::testing {

/// Each pixel's `channels` of `values`, and 0 for those that follow, up to `padded`.
template <typename T>
std::vector<T> padded_channels(const std::vector<T>& values, std::size_t channels, std::size_t padded) {
  std::vector<T> result(values.size() / channels * padded);  // zeros
  for (std::size_t i = 0; i < values.size(); ++i) result[i / channels * padded + i % channels] = values[i];
  return result;
}

}  // namespace carillon::testing
