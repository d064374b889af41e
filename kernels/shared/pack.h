// Pack: neighbouring elements that one thread of a GPU moves in one access of up to 16 bytes. Arithmetic is float32.
// PackedRows assigns packs of a matrix to threads, and PackedPool assigns packs of a pooled image.
//
// A pack of n elements starts at a multiple of its own size. Therefore n must divide the length of a row, or the number
// of channels of a pixel. Tensors start at multiples of 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "carillon/core/host_device.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/window.h"
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

/// Does the same as `store`, but only for tensors: the instruction writes global memory, and never shared memory. The
/// instruction always writes 16 bytes together. In contrast, nvcc 13.0 divides `store` into several instructions if the
/// elements of the pack are also used in another way, for example in sums.
template <typename T, int n>
CARILLON_HOST_DEVICE inline void store_to_tensor(const Pack<T, n>& pack, T* to) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    return __stwb(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&pack));
  }
#endif
  store(pack, to);
}

/// Loads a pack, and converts its elements from f32 or bf16 to float.
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

/// Converts the elements of a pack from float to f32 or bf16, and stores the pack.
template <typename T, int n>
CARILLON_HOST_DEVICE inline void store_floats(const Pack<float, n>& floats, T* to) {
  store(pack_of<T>(floats), to);
}

/// Calls body(std::integral_constant<int, n>{}). n is the largest power of two that divides `extent` and for which n
/// elements of type T fit into pack_bytes.
template <typename T, int n = pack_bytes / static_cast<int>(sizeof(T)), typename Body>
void with_pack_size(std::int64_t extent, const Body& body) {
  if constexpr (n > 1) {
    if (extent % n != 0) return with_pack_size<T, n / 2>(extent, body);
  }
  body(std::integral_constant<int, n>{});
}

/// Assigns to each thread a pack of columns in `rows_at_once` rows. For kernels that are a ForEachElement over count()
/// elements.
template <int n>
struct PackedRows {
  static constexpr std::uint32_t rows_at_once = 4;

  std::uint32_t rows = 0, packs = 0;  ///< number of packs per row

  std::int64_t count() const { return std::int64_t{(rows + rows_at_once - 1) / rows_at_once} * packs; }
  /// Calls use(element, load(element)) for each of the thread's rows. `element` is the index of the pack's first
  /// element. Issues all loads before the first use, so that all loads are in flight at the same time. (If `use`
  /// stores, the compiler cannot move a later load before it.)
  template <typename Load, typename Use>
  CARILLON_HOST_DEVICE void for_rows(std::int64_t i, const Load& load, const Use& use) const {
    const std::uint32_t index = static_cast<std::uint32_t>(i), first = index / packs * rows_at_once;
    const auto element = [&](std::uint32_t row) {
      return (static_cast<std::int64_t>(row) * packs + index % packs) * n;
    };
    decltype(load(i)) loaded[rows_at_once];
    CARILLON_UNROLL
    for (std::uint32_t k = 0; k < rows_at_once; ++k) {
      loaded[k] = load(element(first + k < rows ? first + k : rows - 1));  // clamped: no branch separates the loads
    }
    CARILLON_UNROLL
    for (std::uint32_t k = 0; k < rows_at_once; ++k) {
      if (first + k < rows) use(element(first + k), loaded[k]);
    }
  }
  /// Returns the column of the first element of pack `i`.
  CARILLON_HOST_DEVICE std::uint32_t column(std::int64_t i) const {
    return static_cast<std::uint32_t>(i) % packs * static_cast<std::uint32_t>(n);
  }
};

/// The geometry of a pooling in 32-bit integers, because 64-bit divisions are slow.
struct PackedPool {
  struct Axis {
    int input, output, window, stride, before;
  };
  Axis vertical, horizontal;
  std::uint32_t packs;  ///< number of packs per pixel

  /// The position of a pack in a tensor.
  struct Place {
    std::int64_t image;
    int row, column;
    std::uint32_t pack;
  };
  CARILLON_HOST_DEVICE Place place(std::int64_t i, int height, int width) const {
    const std::uint32_t index = static_cast<std::uint32_t>(i), pixel = index / packs;
    const std::uint32_t line = pixel / static_cast<std::uint32_t>(width);
    const std::uint32_t image = line / static_cast<std::uint32_t>(height);
    return {image, static_cast<int>(line - image * static_cast<std::uint32_t>(height)),
            static_cast<int>(pixel - line * static_cast<std::uint32_t>(width)), index - pixel * packs};
  }
  /// Returns the offset of the pack's first element.
  template <int n>
  CARILLON_HOST_DEVICE std::int64_t offset(const Place& at, int row, int column, int height, int width) const {
    return (((at.image * height + row) * width + column) * packs + at.pack) * n;
  }
};

/// `Geometry`: a type with the SlidingWindows `vertical` and `horizontal`.
template <typename Geometry>
PackedPool packed_pool(const Geometry& geometry, std::int64_t channels, int pack_size) {
  const auto narrow = [](const SlidingWindow& axis) {
    return PackedPool::Axis{static_cast<int>(axis.input), static_cast<int>(axis.output), static_cast<int>(axis.window),
                            static_cast<int>(axis.stride), static_cast<int>(axis.before)};
  };
  return {narrow(geometry.vertical), narrow(geometry.horizontal), static_cast<std::uint32_t>(channels / pack_size)};
}

}  // namespace carillon
