// Resize: each output pixel is a weighted sum of source pixels. Vertical pass first, then horizontal.
//
// Weights and intermediate values are integers that are exact in float32. So all processors give equal bits, with and
// without fused multiply-add.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "carillon/images/view.h"

namespace carillon {

/// One side of a resize: pixel i is the sum over t of weights[i * taps + t] * source[first[i] + t].
struct ResizeAxis {
  static constexpr int weight_bits = 11;  ///< fixed-point weights: 1 is 2^weight_bits

  std::vector<std::int32_t> first;
  std::vector<float> weights;  ///< integers >= 0; those of a pixel sum to 2^weight_bits
  int taps = 0;

  std::int64_t begin() const;  ///< first source pixel that is read
  std::int64_t end() const;
};

/// Parameters of an axis, in source pixels.
struct AxisRequest {
  double begin = 0.0, length = 0.0;    ///< the range that is resized
  std::int64_t lowest = 0, limit = 0;  ///< pixels [lowest, limit) may be read
  std::int64_t resized = 0;            ///< number of output pixels for `length`
  std::int64_t first = 0, count = 0;   ///< output pixels [first, first + count) are computed
};

ResizeAxis make_axis(const AxisRequest& request, Resampling resampling);

/// The axis in reverse order (mirrored).
void mirror(ResizeAxis& axis);

/// Output layout: channel c of pixel (y, x) is out[c * plane + y * row + x * pixel].
struct PixelLayout {
  std::int64_t plane = 0, row = 0, pixel = 0;
};

/// Resizes `part` to rows.first.size() x columns.first.size() pixels. The source indices of the axes refer to the
/// reduced picture of the part.
void resize(const DecodedPart& part, const ResizeAxis& rows, const ResizeAxis& columns, ViewMemory& memory,
            const PixelLayout& layout, std::span<std::uint8_t> out);

}  // namespace carillon
