// Images with padded channels, which convolutions on a GPU may prefer.
#pragma once

#include <cstddef>
#include <vector>

namespace carillon::testing {

/// Copies the `channels` channels of each pixel from `values`, and adds channels with 0 up to `padded` channels.
template <typename T>
std::vector<T> padded_channels(const std::vector<T>& values, std::size_t channels, std::size_t padded) {
  std::vector<T> result(values.size() / channels * padded);  // zeros
  for (std::size_t i = 0; i < values.size(); ++i) result[i / channels * padded + i % channels] = values[i];
  return result;
}

}  // namespace carillon::testing
