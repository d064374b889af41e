// PackedPool: assigns a pack of n channels of a pixel to each GPU thread in a pooling.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "kernels/shared/window.h"

namespace carillon {

/// The geometry of a pooling in 32-bit integers, because 64-bit divisions are slow.
struct PackedPool {
  struct Axis {
    int input, output, window, stride, before;
  };
  Axis vertical, horizontal;
  std::uint32_t packs;  ///< packs of a pixel

  /// The position of a pack in a tensor.
  struct Place {
    std::int64_t image;
    int row, column;
    std::uint32_t pack;
  };
  CARILLON_HOST_DEVICE Place place(std::int64_t i, int height, int width) const {
    const std::uint32_t index = static_cast<std::uint32_t>(i), pixel = index / packs;
    const std::uint32_t line = pixel / static_cast<std::uint32_t>(width);
    const std::uint32_t image = line / static_cast<std::uint32_t>(height);
    return {image, static_cast<int>(line - image * static_cast<std::uint32_t>(height)),
            static_cast<int>(pixel - line * static_cast<std::uint32_t>(width)), index - pixel * packs};
  }
  /// Offset of the pack's first element.
  template <int n>
  CARILLON_HOST_DEVICE std::int64_t offset(const Place& at, int row, int column, int height, int width) const {
    return (((at.image * height + row) * width + column) * packs + at.pack) * n;
  }
};

/// `Geometry`: SlidingWindows `vertical` and `horizontal`.
template <typename Geometry>
PackedPool packed_pool(const Geometry& geometry, std::int64_t channels, int pack_size) {
  const auto narrow = [](const SlidingWindow& axis) {
    return PackedPool::Axis{static_cast<int>(axis.input), static_cast<int>(axis.output), static_cast<int>(axis.window),
                            static_cast<int>(axis.stride), static_cast<int>(axis.before)};
  };
  return {narrow(geometry.vertical), narrow(geometry.horizontal), static_cast<std::uint32_t>(channels / pack_size)};
}

}  // namespace carillon
