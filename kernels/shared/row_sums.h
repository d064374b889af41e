// Row sums that are accumulated in float32: in place if the row is float32, otherwise in scratch memory.
#pragma once

#include <cstdint>

#include "src/core/bf16.h"

namespace carillon {

[[gnu::always_inline]] inline float* sums_of(float* row, float* /*scratch*/) { return row; }
[[gnu::always_inline]] inline float* sums_of(Bf16* /*row*/, float* scratch) { return scratch; }

/// Stores the sums that were accumulated at sums_of.
[[gnu::always_inline]] inline void store_sums(const float* /*sums*/, std::int64_t /*count*/, float* /*row*/) {}
[[gnu::always_inline]] inline void store_sums(const float* __restrict sums, std::int64_t count, Bf16* __restrict row) {
  for (std::int64_t c = 0; c < count; ++c) row[c] = to_bf16(sums[c]);
}

}  // namespace carillon
