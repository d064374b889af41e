// simd.h: vectors of floats. Their width is the width of the instruction set for which a file is compiled. For
// *_simd.cpp only.
//
// CMake compiles each *_simd.cpp once per Isa and defines CARILLON_ISA as the name of the Isa. Everything that such a
// file defines or uses is in namespace carillon::CARILLON_ISA. Such a file includes few other headers. Reason: if
// several files contain the same inline function, the linker keeps only one version, which could be the AVX-512
// version. Other processors cannot run that version.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define CARILLON_INLINE inline __attribute__((always_inline))

namespace carillon::CARILLON_ISA {

#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

typedef float Floats __attribute__((vector_size(lanes * sizeof(float))));
typedef float UnalignedFloats __attribute__((vector_size(lanes * sizeof(float)), aligned(sizeof(float)), may_alias));

CARILLON_INLINE Floats load(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }
CARILLON_INLINE void store(float* to, Floats values) { *reinterpret_cast<UnalignedFloats*>(to) = values; }
CARILLON_INLINE Floats broadcast(float value) {
#if defined(__AVX512F__)
  return (Floats)_mm512_set1_ps(value);
#elif defined(__AVX2__)
  return (Floats)_mm256_set1_ps(value);
#else
  return Floats{value, value, value, value};
#endif
}

/// Keeps `values` in a register, so that several multiplications do not load them again.
CARILLON_INLINE Floats in_register(Floats values) {
#if defined(__AVX512F__)
  asm("" : "+v"(values));
#elif defined(__x86_64__)
  asm("" : "+x"(values));
#endif
  return values;
}

/// Returns a * b + c. If the instruction set has a fused multiply-add, the result is rounded once.
CARILLON_INLINE Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

/// Returns max(x, 0). NaN stays NaN.
CARILLON_INLINE Floats relu(Floats x) { return x < Floats{} ? Floats{} : x; }

#if defined(__AVX2__) && !defined(__AVX512F__)
CARILLON_INLINE __m256i first_lanes(std::int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

/// Four floats, for data that do not fill a whole vector.
#if defined(__AVX2__)
typedef float Quad __attribute__((vector_size(4 * sizeof(float))));
CARILLON_INLINE Quad fma(Quad a, Quad b, Quad c) { return (Quad)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c); }
CARILLON_INLINE void store(float* to, Quad values) { _mm_storeu_ps(to, (__m128)values); }
#else
using Quad = Floats;
#endif

/// Returns a vector of type `Vector` with `value` in every element.
template <typename Vector>
CARILLON_INLINE Vector broadcast_as(float value) {
  if constexpr (sizeof(Vector) == sizeof(Quad)) {
    return Vector{value, value, value, value};
  } else {
    return broadcast(value);
  }
}

/// Loads the first `count` values (count <= 4). The other values are zero. Reads no other memory.
CARILLON_INLINE Quad load_quad(const float* from, std::int64_t count) {
#if defined(__AVX512VL__)
  return (Quad)_mm_maskz_loadu_ps(static_cast<__mmask8>((1u << count) - 1), from);
#elif defined(__AVX2__)
  return (Quad)_mm_maskload_ps(from,
                               _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int>(count)), _mm_setr_epi32(0, 1, 2, 3)));
#else
  Quad values{};
  for (std::int64_t i = 0; i < count; ++i) values[i] = from[i];
  return values;
#endif
}

/// Loads the first `count` values (count <= lanes). The other lanes are zero. Reads no other memory.
CARILLON_INLINE Floats load_first(const float* from, std::int64_t count) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#elif defined(__AVX2__)
  return (Floats)_mm256_maskload_ps(from, first_lanes(count));
#else
  Floats values{};
  for (std::int64_t i = 0; i < count; ++i) values[i] = from[i];
  return values;
#endif
}

/// Stores the first `count` values (count <= lanes). Writes no other memory.
CARILLON_INLINE void store_first(float* to, Floats values, std::int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), (__m512)values);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(to, first_lanes(count), (__m256)values);
#else
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[i];
#endif
}

/// Loads elements [at, at + lanes) of an array of `count` elements. Elements after the end of the array are zeros.
CARILLON_INLINE Floats load_within(const float* array, std::int64_t at, std::int64_t count) {
  return at + lanes <= count ? load(array + at) : load_first(array + at, count - at);
}
CARILLON_INLINE void store_within(float* array, std::int64_t at, std::int64_t count, Floats values) {
  if (at + lanes <= count) {
    store(array + at, values);
  } else {
    store_first(array + at, values, count - at);
  }
}

/// Returns a number in which bit i is set if value i is not zero. A NaN is not zero.
CARILLON_INLINE std::uint32_t nonzero_lanes(Floats values) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)values, _mm512_setzero_ps(), _CMP_NEQ_UQ);
#elif defined(__AVX2__)
  return static_cast<std::uint32_t>(
      _mm256_movemask_ps(_mm256_cmp_ps((__m256)values, _mm256_setzero_ps(), _CMP_NEQ_UQ)));
#else
  std::uint32_t bits = 0;
  for (int i = 0; i < lanes; ++i) bits |= static_cast<std::uint32_t>(values[i] != 0.0f) << i;
  return bits;
#endif
}

/// Writes first + i to `to` for each set bit i of the lowest `lanes` bits, and returns the number of these set bits.
/// May overwrite up to `lanes` elements of `to`.
CARILLON_INLINE std::int64_t expand_bits(std::uint32_t bits, std::int32_t first, std::int32_t* to) {
#if defined(__AVX512F__)
  const __m512i numbers = _mm512_add_epi32(_mm512_set1_epi32(first),
                                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), numbers));
  return __builtin_popcount(bits & 0xffffu);
#else
  std::int64_t count = 0;
  for (int i = 0; i < lanes; ++i) {
    to[count] = first + i;
    count += bits >> i & 1u;
  }
  return count;
#endif
}

/// A compile-time number as an argument.
template <int n>
struct Constant {
  static constexpr int value = n;
};
template <int... n>
struct Constants {};
template <int count, int... n>
struct CountTo : CountTo<count - 1, count - 1, n...> {};
template <int... n>
struct CountTo<0, n...> {
  using type = Constants<n...>;
};

/// Calls body(Constant<0>{}), ..., body(Constant<count - 1>{}), unrolled.
template <typename Body, int... n>
CARILLON_INLINE void unroll_over(Constants<n...> /*numbers*/, const Body& body) {
  (body(Constant<n>{}), ...);
}
template <int count, typename Body>
CARILLON_INLINE void unroll(const Body& body) {
  unroll_over(typename CountTo<count>::type{}, body);
}

}  // namespace carillon::CARILLON_ISA
