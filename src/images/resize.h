// Resizing: pixels as sums of a few of a picture's, rows first.
//
// Weights and what lies between the two passes are whole numbers, so small that their sums are exact in float32 too:
// the same bits on every processor, whether or not it fuses multiplication and addition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "carillon/images/view.h"

namespace carillon {

/// One side of a resize: pixel i is the sum over t of weights[i * taps + t] * source[first[i] + t].
struct ResizeAxis {
  static constexpr int weight_bits = 11;  ///< of 1

  std::vector<std::int32_t> first;
  std::vector<float> weights;  ///< whole numbers; of a pixel, they sum to 2^weight_bits, and none is negative
  int taps = 0;

  std::int64_t begin() const;  ///< of what it reads
  std::int64_t end() const;
};

/// What an axis is made of, in source pixels.
struct AxisRequest {
  double begin = 0.0, length = 0.0;    ///< of what is resized
  std::int64_t lowest = 0, limit = 0;  ///< what may be read: from there, up to and without that
  std::int64_t resized = 0;            ///< pixels that `length` becomes
  std::int64_t first = 0, count = 0;   ///< those of them that are wanted
};

ResizeAxis make_axis(const AxisRequest& request, Resampling resampling);

/// The same pixels, the last first.
void mirror(ResizeAxis& axis);

/// Where a resized picture's pixels go: channel c of pixel (y, x) to out[c * plane + y * row + x * pixel].
struct PixelLayout {
  std::int64_t plane = 0, row = 0, pixel = 0;
};

/// `part` resized to rows.first.size() x columns.first.size() pixels; source indices of the axes are those of the
/// part's reduced picture.
void resize(const DecodedPart& part, const ResizeAxis& rows, const ResizeAxis& columns, ViewMemory& memory,
            const PixelLayout& layout, std::span<std::uint8_t> out);

}  // namespace carillon
