// Learned positions of a vision transformer, for another image size than the one they were trained for.
//
// Positions are [1, 1 + side * side, channels]: that of the class token, then a square grid, row by row. The grid is
// resized as an image, by the cubic filter (a = -0.5) that grows with the factor of a reduction, as in timm
// (PyTorch's interpolate with mode "bicubic" and antialias).
#pragma once

#include <cstdint>
#include <vector>

namespace carillon {

/// Whether both are shapes of positions with a square grid and with equal channels; that of `from` has at most 256
/// rows.
bool are_position_grids(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to);

/// Positions of shape `to` from positions of shape `from`; are_position_grids() of both.
std::vector<float> resized_positions(const std::vector<float>& positions, const std::vector<std::int64_t>& from,
                                     const std::vector<std::int64_t>& to);

}  // namespace carillon
