// ComputeCopy: a parameter once more, in the type and the order in which products read it. The update writes both, so
// that no step has to copy them (src/step/update/compute_copies.h).
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"

namespace carillon {

enum class ComputeCopyFormat {
  none,
  same_layout,   ///< in the activations' type
  filter_major,  ///< [last extent, all others], in the activations' type, with as many channels as the op's input
};

/// How channels lie where each pixel's are followed by others, which are 0.
struct ChannelPadding {
  std::uint32_t channels = 1, padded = 1;  ///< of a pixel; equal: none follow

  /// Where number i lies of all pixels' channels.
  CARILLON_HOST_DEVICE std::uint32_t place(std::uint32_t i) const {
    return channels == padded ? i : i / channels * padded + i % channels;
  }
  /// Elements that `count` channels of pixels take up.
  CARILLON_HOST_DEVICE std::int64_t extent(std::int64_t count) const {
    return channels == padded ? count : count / channels * padded;
  }
};

/// Of filters [height, width, in, out] that read an input of as many channels or more.
inline ChannelPadding channel_padding(const Shape& filters, const Shape& input) {
  return {static_cast<std::uint32_t>(filters[2]), static_cast<std::uint32_t>(input.extents().back())};
}

struct ComputeCopy {
  Tensor tensor;  ///< no data: the parameter has none
  ComputeCopyFormat form = ComputeCopyFormat::none;
  ChannelPadding padding = {};  ///< of the second to last extent, filter-major
  Buffer memory = {};           ///< the tensor's
};

}  // namespace carillon
