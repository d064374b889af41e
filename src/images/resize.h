// Resizing: pixels as sums of a few of a picture's, with whole-number weights, rows first.
#pragma once

#include <cstdint>
#include <vector>

#include "carillon/images/view.h"

namespace carillon {

/// One side of a resize: pixel i is the sum over t of weights[i * taps + t] * source[first[i] + t].
struct ResizeAxis {
  static constexpr int weight_bits = 14;  ///< of 1

  std::vector<std::int32_t> first;
  std::vector<std::int16_t> weights;  ///< of a pixel sum to 2^weight_bits; none is negative
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

/// `part` resized to [rows.first.size()][columns.first.size()][4] in memory.pixels; source indices of the axes are
/// those of the part's reduced picture.
void resize(const DecodedPart& part, const ResizeAxis& rows, const ResizeAxis& columns, ViewMemory& memory);

}  // namespace carillon
