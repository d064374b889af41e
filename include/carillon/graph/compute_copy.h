// ComputeCopy: a copy of a parameter in the type and order that matrix products read. The update writes the parameter
// and the copy, so that no step converts parameters. Only GPUs have compute copies.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"

namespace carillon {

enum class ComputeCopyFormat {
  none,
  same_layout,   ///< the parameter's layout, in the activations' type
  filter_major,  ///< [last extent, all others] in the activations' type, padded to the channel count of the op's input
};

/// The layout of pixels with padding channels. The padding channels follow the pixel's own channels and hold 0.
struct ChannelPadding {
  std::uint32_t channels = 1, padded = 1;  ///< per pixel without and with padding

  /// Position of channel number i, counted over all pixels without padding.
  CARILLON_HOST_DEVICE std::uint32_t place(std::uint32_t i) const {
    return channels == padded ? i : i / channels * padded + i % channels;
  }
  /// Elements of memory that `count` channels occupy.
  CARILLON_HOST_DEVICE std::int64_t extent(std::int64_t count) const {
    return channels == padded ? count : count / channels * padded;
  }
};

/// The padding of filters [height, width, in, out] for an input with at least `in` channels.
inline ChannelPadding channel_padding(const Shape& filters, const Shape& input) {
  return {static_cast<std::uint32_t>(filters[2]), static_cast<std::uint32_t>(input.extents().back())};
}

struct ComputeCopy {
  Tensor tensor;  ///< no data: the parameter has no compute copy
  ComputeCopyFormat form = ComputeCopyFormat::none;
  ChannelPadding padding = {};  ///< filter_major: padding of the extent `in`
  Buffer memory = {};           ///< holds the tensor
};

}  // namespace carillon
