// Detection of the format of pixels, for error messages about records of an unexpected format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "carillon/core/sample.h"

namespace carillon {

/// Returns e.g. ": looks like 24x24x3" or ": looks like a PNG file", from the first bytes and the length; empty if the
/// format is unknown.
std::string describe_image_form(std::span<const std::uint8_t> image);

/// Detects whether colour images store their channels as planes (CHW) or interleaved (HWC). Both layouts have the same
/// length, so the length does not show it.
///
/// In natural images, vertical neighbours have similar values. Their distance in bytes is `width` in CHW and `width *
/// channels` in HWC. With D(n) = mean |x[i + n] - x[i]|, the ratio D(width * channels) / D(width) is high in CHW and
/// low in HWC. Measured on the 10,000 images of CIFAR-10's data_batch_1: 2.1 in CHW (lowest single image 1.17) and 0.29
/// in HWC (highest 0.95).
class ChannelOrder {
 public:
  explicit ChannelOrder(const ImageShape& shape);

  void add(std::span<const std::uint8_t> image);

  /// True if the added images together look interleaved. False if they look planar, or if they show no difference
  /// (noise, uniform images).
  bool seems_interleaved() const;

 private:
  std::size_t planar_offset_, interleaved_offset_;  // distance of vertical neighbours in bytes
  double planar_distance_ = 0.0, interleaved_distance_ = 0.0;
};

}  // namespace carillon
