// Kernels for conversion, transposition and bias on a GPU. Ops run them before and after the libraries' matrix products
// and convolutions. In CUDA builds, the file also has the functions that enqueue the kernels.
//
// If a comment does not state another type, each tensor is f32 or bf16. Arithmetic is float32. Results are rounded to
// the target's type, to nearest, ties to even. The functions only enqueue a kernel. Tensors start at multiples of 16
// bytes; `from` and `to` do not overlap.
#pragma once

#include <cstdint>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/parameters.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// to[i] = from[i]. Each thread converts a pack of n elements.
template <typename From, typename To, int n>
struct ConvertPack {
  const From* from;  ///< [count of packs * n]
  To* to;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { store_floats(load_floats<n>(from + i * n), to + i * n); }
};

/// y = y + bias. If `relu` is true, then y = max(y, 0). Each thread processes a pack of n elements.
template <typename T, int n>
struct BiasReluPack {
  const float* bias;  ///< [columns]
  T* y;               ///< [rows, columns]
  std::uint32_t packs_per_row;
  bool relu;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const Pack<float, n> added = load<n>(bias + static_cast<std::uint32_t>(i) % packs_per_row * n);
    Pack<float, n> values = load_floats<n>(y + i * n);
    for (int k = 0; k < n; ++k) {
      const float z = values.at[k] + added.at[k];
      values.at[k] = relu && z < 0.0f ? 0.0f : z;  // NaN stays NaN
    }
    store_floats(values, y + i * n);
  }
};

/// to[c, r] = from[r, c]. Processes square tiles, so that the reads and the writes both run along rows.
template <typename From, typename To>
struct Transpose {
  static constexpr int tile = 32;
  static constexpr int threads = 256;
  static constexpr int phases = 2;
  struct Shared {
    float values[tile][tile + 1];  ///< a tile has one additional column, so that the values of a column are in
                                   ///< different banks
  };

  const From* from;  ///< [rows, columns]
  To* to;            ///< [columns, rows]
  std::int64_t rows, columns;
  ChannelPadding from_padding = {}, to_padding = {};  ///< padding of the last extent of `from` and of `to`

  CARILLON_HOST_DEVICE std::int64_t tiles_across() const { return (columns + tile - 1) / tile; }
  int blocks() const { return static_cast<int>((rows + tile - 1) / tile * tiles_across()); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const int tiles = static_cast<int>(tiles_across());
    const std::int64_t row = static_cast<std::int64_t>(block / tiles) * tile;
    const std::int64_t column = static_cast<std::int64_t>(block % tiles) * tile;
    const int x = thread % tile;
    for (int y = thread / tile; y < tile; y += threads / tile) {
      if constexpr (phase == 0) {
        if (row + y < rows && column + x < columns) {
          shared.values[y][x] = to_float(from[place(row + y, columns, column + x, from_padding)]);
        }
      } else {
        if (column + y < columns && row + x < rows) {
          to[place(column + y, rows, row + x, to_padding)] = stored_as<To>(shared.values[x][y]);
        }
      }
    }
  }

 private:
  CARILLON_HOST_DEVICE static std::int64_t place(std::int64_t line, std::int64_t extent, std::int64_t i,
                                                 const ChannelPadding& padding) {
    return line * padding.extent(extent) + padding.place(static_cast<std::uint32_t>(i));
  }
};

/// to[i] = from[i]. The element counts must be equal.
void convert_cuda(const Tensor& from, const Tensor& to, Stream& stream);

/// The two sides of a transposition. The shapes of the tensors are ignored; the last extent of each side may be padded.
struct Transposition {
  Tensor from;                       ///< [rows, columns]
  ChannelPadding from_padding = {};  ///< padding of the columns
  Tensor to;                         ///< [columns, rows]
  ChannelPadding to_padding = {};    ///< padding of the rows; the function does not write the padding
};
/// to[c, r] = from[r, c].
void transpose_cuda(const Transposition& sides, std::int64_t rows, std::int64_t columns, Stream& stream);

/// y[r, c] += bias[c]. If `relu` is true, then y = max(y, 0); NaN stays NaN. y: [..., columns], bias: [columns] in
/// float32.
void bias_relu_cuda(const Tensor& bias, bool relu, const Tensor& y, Stream& stream);

}  // namespace carillon
