// Resizes the learned positions of a vision transformer for another image size than in training.
//
// Positions are [1, 1 + side * side, channels]: first the position of the class token, then a square grid, row by row.
// The grid is resized as an image, with a cubic filter (a = -0.5). If the grid shrinks, the filter is widened by the
// same factor, as in timm (PyTorch's interpolate with mode "bicubic" and antialias).
#pragma once

#include <cstdint>
#include <vector>

namespace carillon {

/// Whether both shapes are positions with a square grid and have equal channels. The grid of `from` has at most 256
/// rows.
bool are_position_grids(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to);

/// Returns positions of shape `to` from positions of shape `from`. Requires are_position_grids() of both shapes.
std::vector<float> resized_positions(const std::vector<float>& positions, const std::vector<std::int64_t>& from,
                                     const std::vector<std::int64_t>& to);

}  // namespace carillon
