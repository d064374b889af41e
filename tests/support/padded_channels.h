// Pads the channels of images with zeros. Some convolutions on a GPU prefer images with padded channels.
#pragma once

#include <cstddef>
#include <vector>

namespace carillon::testing {

/// `values`: pixels of `channels` channels each. Returns the same pixels with `padded` channels each. The additional
/// channels are 0.
template <typename T>
std::vector<T> padded_channels(const std::vector<T>& values, std::size_t channels, std::size_t padded) {
  std::vector<T> result(values.size() / channels * padded);  // all zeros
  for (std::size_t i = 0; i < values.size(); ++i) result[i / channels * padded + i % channels] = values[i];
  return result;
}

}  // namespace carillon::testing
