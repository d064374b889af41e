// The one sum behind every reduction, over ranks and over slices of a batch: all add through it, for the same bits.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace carillon {

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...) for i in [0, count), summed in that order; out may be a part.
void sum_in_order(std::span<const float* const> parts, std::size_t count, float factor, float* out);

/// The same values, without an array for all of them: take(first, values) block by block, on several threads at once.
void sum_blocks_in_order(std::span<const float* const> parts, std::size_t count, float factor,
                         const std::function<void(std::size_t first, std::span<const float> values)>& take);

}  // namespace carillon
