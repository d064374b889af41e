// Conversion between activations and float32 on a CPU.
#pragma once

#include <cstdint>

#include "kernels/shared/element_pointer.h"
#include "src/core/bf16.h"

namespace carillon {

/// to[i] = from[i].
void read_floats(ElementPointer from, std::size_t count, float* to);
/// to[i] = from[i], rounded to the type of `to`.
void write_floats(const float* from, std::size_t count, ElementPointer to);

/// `count` elements as floats: in place if they are float32, else converted to `scratch`.
inline const float* floats_at(ElementPointer elements, std::size_t count, float* scratch) {
  if (elements.type() == DType::f32) return elements.as<const float>();
  read_floats(elements, count, scratch);
  return scratch;
}

/// Calls body(where to write `count` floats): the elements themselves if they are float32, else `scratch`, which is
/// then converted to them.
template <typename Body>
void write_at(ElementPointer elements, std::size_t count, float* scratch, const Body& body) {
  if (elements.type() == DType::f32) return body(elements.as<float>());
  body(scratch);
  write_floats(scratch, count, elements);
}

/// Where the sums of a row are accumulated in float32: in place if the row is float32, otherwise in scratch memory.
[[gnu::always_inline]] inline float* sums_of(float* row, float* /*scratch*/) { return row; }
[[gnu::always_inline]] inline float* sums_of(Bf16* /*row*/, float* scratch) { return scratch; }

/// Stores the sums that were accumulated at sums_of.
[[gnu::always_inline]] inline void store_sums(const float* /*sums*/, std::int64_t /*count*/, float* /*row*/) {}
[[gnu::always_inline]] inline void store_sums(const float* __restrict sums, std::int64_t count, Bf16* __restrict row) {
  for (std::int64_t c = 0; c < count; ++c) row[c] = to_bf16(sums[c]);
}

}  // namespace carillon
