// Pack: neighbouring elements that one thread of a GPU moves in one access of up to 16 bytes. Arithmetic is float32.
//
// A pack of n elements starts at a multiple of its own size: n divides the extent that packs must not straddle (a row,
// a pixel's channels), and tensors start at multiples of 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

inline constexpr int pack_bytes = 16;  ///< bytes of the largest pack

template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

template <int n, typename T>
CARILLON_HOST_DEVICE inline Pack<T, n> load(const T* from) {
  return *reinterpret_cast<const Pack<T, n>*>(from);
}

template <typename T, int n>
CARILLON_HOST_DEVICE inline void store(const Pack<T, n>& pack, T* to) {
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

/// Like `store`, for tensors only: the instruction writes global memory, and never shared memory. It writes 16 bytes at
/// once. nvcc 13.0 splits `store` if the elements of the pack are also used otherwise, for example added to sums.
template <typename T, int n>
CARILLON_HOST_DEVICE inline void store_to_tensor(const Pack<T, n>& pack, T* to) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    return __stwb(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&pack));
  }
#endif
  store(pack, to);
}

/// Like `load`, converts f32 or bf16 to float.
template <int n, typename T>
CARILLON_HOST_DEVICE inline Pack<float, n> load_floats(const T* from) {
  const Pack<T, n> pack = load<n>(from);
  Pack<float, n> floats;
  for (int i = 0; i < n; ++i) floats.at[i] = to_float(pack.at[i]);
  return floats;
}

/// Converts float to f32 or bf16.
template <typename T, int n>
CARILLON_HOST_DEVICE inline Pack<T, n> pack_of(const Pack<float, n>& floats) {
  Pack<T, n> pack;
  for (int i = 0; i < n; ++i) pack.at[i] = stored_as<T>(floats.at[i]);
  return pack;
}

/// Like `store`, converts float to f32 or bf16.
template <typename T, int n>
CARILLON_HOST_DEVICE inline void store_floats(const Pack<float, n>& floats, T* to) {
  store(pack_of<T>(floats), to);
}

/// Calls body(std::integral_constant<int, n>{}) with the largest power of two n such that n elements of type T fit into
/// pack_bytes and n divides `extent`.
template <typename T, int n = pack_bytes / static_cast<int>(sizeof(T)), typename Body>
void with_pack_size(std::int64_t extent, const Body& body) {
  if constexpr (n > 1) {
    if (extent % n != 0) return with_pack_size<T, n / 2>(extent, body);
  }
  body(std::integral_constant<int, n>{});
}

}  // namespace carillon
