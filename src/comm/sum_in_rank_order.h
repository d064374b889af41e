// The one sum behind every reduction: all transports add through it, so all give the same bits.
#pragma once

#include <cstddef>
#include <span>

namespace carillon {

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...) for i in [0, count), summed in that order; out may be a part.
void sum_in_rank_order(std::span<const float* const> parts, std::size_t count, float factor, float* out);

}  // namespace carillon
