// The parts of the loops of depthwise_conv2d: rows of pixels in scratch memory, and blocks of output columns in
// registers. For depthwise_conv2d_simd.cpp only.
#pragma once

#include "kernels/depthwise_conv2d/depthwise_conv2d_vectors.h"
#include "kernels/shared/simd.h"
#include "src/core/bf16.h"

namespace carillon::CARILLON_ISA {

typedef std::uint32_t Words __attribute__((vector_size(lanes * sizeof(std::uint32_t))));
typedef std::uint16_t Halves __attribute__((vector_size(lanes * sizeof(std::uint16_t))));

CARILLON_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
CARILLON_INLINE std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
CARILLON_INLINE std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Loads the first `count` channels as floats, followed by zeros. Reads no other memory.
CARILLON_INLINE Floats load_channels(const float* from, std::int64_t count) { return load_within(from, 0, count); }
CARILLON_INLINE Floats load_channels(const Bf16* from, std::int64_t count) {
  Halves halves{};
  if (count >= lanes) {
    __builtin_memcpy(&halves, &from->bits, sizeof(halves));
  } else {
    for (std::int64_t i = 0; i < count; ++i) halves[i] = from[i].bits;
  }
  return (Floats)(__builtin_convertvector(halves, Words) << 16);
}

CARILLON_INLINE void store_channels(float* to, Floats values, std::int64_t count) {
  store_within(to, 0, count, values);
}
/// Rounds like to_bf16 (src/core/bf16.h). This file has its own copy of that function; simd.h states the reason.
CARILLON_INLINE void store_channels(Bf16* to, Floats values, std::int64_t count) {
  const Words bits = (Words)values;
  const Words rounded = bits + 0x7fffu + (bits >> 16 & 1u), quiet = bits | 0x400000u;
  const Halves halves = __builtin_convertvector((values == values ? rounded : quiet) >> 16, Halves);
  if (count >= lanes) {
    __builtin_memcpy(&to->bits, &halves, sizeof(halves));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i].bits = halves[i];
  }
}

/// Calls body(image) with `image` as a pointer to the type of its elements.
template <typename Body>
CARILLON_INLINE void with_elements(const void* image, bool is_bf16, const Body& body) {
  if (is_bf16) {
    body(static_cast<const Bf16*>(image));
  } else {
    body(static_cast<const float*>(image));
  }
}

/// One vector of channels of an image.
struct Channels {
  const void* image;       ///< [height, width, channels]
  std::int64_t row, step;  ///< row: number of elements from one row to the next; step: number of elements from one
                           ///< pixel to the next
  std::int64_t first, count;
  bool is_bf16;

  Channels(const void* data, const DepthwiseConvolution& c, std::int64_t width, std::int64_t channel)
      : image(data),
        row(width * c.channels),
        step(c.channels),
        first(channel),
        count(least(lanes, c.channels - channel)),
        is_bf16(c.is_bf16) {}

  /// Prefetches a row into the cache. The pixels of a row are far apart, so the processor does not prefetch them
  /// itself.
  template <bool for_writing>
  CARILLON_INLINE void prefetch(std::int64_t r, std::int64_t pixels) const {
    const std::int64_t size = is_bf16 ? sizeof(Bf16) : sizeof(float);
    const char* at = static_cast<const char*>(image) + (r * row + first) * size;
    for (std::int64_t q = 0; q < pixels; ++q, at += step * size) __builtin_prefetch(at, for_writing);
  }
};

/// Rows of pixels in scratch memory. A pixel has one vector of channels. Row r is in slot r modulo the number of slots,
/// which is a power of two.
struct Ring {
  float* data;
  std::int64_t width, slots;

  CARILLON_INLINE float* row(std::int64_t r) const { return data + (r & (slots - 1)) * width * lanes; }
  std::int64_t floats() const { return slots * width * lanes; }
};

/// Copies a row to `to` as floats. Each pixel is `spacing` pixels after the previous pixel. Adds the pixels to `sum`,
/// if `sum` is not null.
CARILLON_INLINE void copy_row(const Channels& from, std::int64_t row, std::int64_t pixels, std::int64_t spacing,
                              float* to, Floats* sum = nullptr) {
  with_elements(
      from.image, from.is_bf16, [&](const auto* image) __attribute__((always_inline)) {
        const auto* pixel = image + row * from.row + from.first;
        for (std::int64_t q = 0; q < pixels; ++q, pixel += from.step, to += spacing * lanes) {
          const Floats values = load_channels(pixel, from.count);
          store(to, values);
          if (sum != nullptr) *sum += values;
        }
      });
}

/// Copies the rows of x to a ring, in order.
struct InputRows {
  const DepthwiseConvolution& convolution;
  Channels x;
  Ring ring;
  std::int64_t next = 0;  ///< first row that is not copied

  /// Copies rows that are before position `end`, starting at row `first` (first_row defines positions). Skips rows that
  /// have already been copied.
  CARILLON_INLINE void copy(std::int64_t first, std::int64_t end) {
    const DepthwiseAxis &rows = convolution.vertical, &columns = convolution.horizontal;
    next = most(next, first);
    for (; next < rows.input && next * rows.spacing < end; ++next) {
      copy_row(x, next, columns.input, columns.spacing, ring.row(next) + columns.before * lanes);
    }
  }
};

/// Returns the first input row at or after position `top`. Positions count from input row 0 and include the rows of
/// zeros between inputs (DepthwiseAxis::spacing).
CARILLON_INLINE std::int64_t first_row(const DepthwiseAxis& axis, std::int64_t top) {
  if (top <= 0) return 0;
  return axis.spacing == 1 ? top : (top + axis.spacing - 1) / axis.spacing;
}

/// Returns the number of pixels of a row in scratch memory: the padded input, and the pixels beyond the input that the
/// last block of `columns` outputs reads.
CARILLON_INLINE std::int64_t ring_width(const DepthwiseAxis& axis, int columns) {
  const std::int64_t read = (rounded_up(axis.output, columns) - 1) * axis.stride + axis.window;
  return most(read, axis.before + (axis.input - 1) * axis.spacing + 1);
}

CARILLON_INLINE std::int64_t power_of_two(std::int64_t at_least) {
  std::int64_t power = 1;
  while (power < at_least) power *= 2;
  return power;
}

/// Describes how a block of output columns is computed. Among the pixels that the block reads, the first `zeros_before`
/// and the last `zeros_after` are known to be zeros.
template <int taps_, int columns_, int stride_, int zeros_before, int zeros_after>
struct Block {
  static constexpr int taps = taps_;        ///< number of filter columns that are processed together; a divisor of the
                                            ///< window
  static constexpr int columns = columns_;  ///< number of output columns
  static constexpr int stride = stride_;    ///< 1, or 0 for any stride
  /// If the stride is 1: only pixels [first, last) may differ from 0.
  static constexpr int first = zeros_before, last = columns + taps - 1 - zeros_after;
};

/// Calls visit(q, j, pixel x[q * stride + j]) for output columns q < columns and filter columns j < taps. If the stride
/// is 1, loads each pixel once, and skips pixels that are known to be zeros.
template <typename B, typename Visit>
CARILLON_INLINE void visit_pixels(const float* x, std::int64_t step, const Visit& visit) {
  if constexpr (B::stride == 1) {
    unroll<B::last>([&](auto u) __attribute__((always_inline)) {
      if constexpr (u.value >= B::first) {
        const Floats pixel = in_register(load(x + u.value * lanes));
        unroll<B::columns>([&](auto q) __attribute__((always_inline)) {
          constexpr int j = u.value - q.value;
          if constexpr (j >= 0 && j < B::taps) visit(q.value, j, pixel);
        });
      }
    });
  } else {
    for (int q = 0; q < B::columns; ++q) {
      for (int j = 0; j < B::taps; ++j) visit(q, j, load(x + (q * step + j) * lanes));
    }
  }
}

/// sums[q] += the sum over j of x[q * stride + j] * w[j].
template <typename B>
CARILLON_INLINE void add_taps(const float* x, const float* w, std::int64_t step, Floats (&sums)[B::columns]) {
  Floats filter[B::taps];
  for (int j = 0; j < B::taps; ++j) filter[j] = load(w + j * lanes);
  visit_pixels<B>(
      x, step, [&](int q, int j, Floats pixel) __attribute__((always_inline)) {
        sums[q] = fma(pixel, filter[j], sums[q]);
      });
}

/// sums[j] += the sum over q of x[q * stride + j] * dy[q].
template <typename B>
CARILLON_INLINE void add_columns(const float* x, const float* dy, std::int64_t step, Floats (&sums)[B::taps]) {
  Floats gradient[B::columns];
  for (int q = 0; q < B::columns; ++q) gradient[q] = load(dy + q * lanes);
  visit_pixels<B>(
      x, step, [&](int q, int j, Floats pixel) __attribute__((always_inline)) {
        sums[j] = fma(pixel, gradient[q], sums[j]);
      });
}

/// Calls body(Block) for the block that starts at output column q.
template <int taps, int columns, int stride, typename Body>
CARILLON_INLINE void with_block(const DepthwiseAxis& axis, std::int64_t q, const Body& body) {
  constexpr int half = stride == 1 ? taps / 2 : 0;
  if constexpr (half > 0) {
    const bool is_padded = axis.window == taps && axis.before == half && axis.input == axis.output;
    const bool is_first = is_padded && q == 0, is_last = is_padded && q + columns == axis.output;
    if (is_first && is_last) return body(Block<taps, columns, stride, half, half>{});
    if (is_first) return body(Block<taps, columns, stride, half, 0>{});
    if (is_last) return body(Block<taps, columns, stride, 0, half>{});
  }
  body(Block<taps, columns, stride, 0, 0>{});
}

/// Returns the number of output columns that are computed together. With this number, the fewest unused columns remain
/// after the end of the output.
CARILLON_INLINE int columns_for(std::int64_t output) {
  int best = lanes == 16 ? 8 : 7;  // this number fits the number of registers
  constexpr int choices[] = {7, 8, 4};
  for (const int columns : choices) {
    if (rounded_up(output, columns) < rounded_up(output, best)) best = columns;
  }
  return best;
}

/// Calls body(taps, columns, stride) with the constants of the fastest variant of the loops.
template <typename Body>
CARILLON_INLINE void with_form(const DepthwiseAxis& axis, const Body& body) {
  const auto with_stride = [&](auto taps, auto columns) __attribute__((always_inline)) {
    if (axis.stride == 1) {
      body(taps, columns, Constant<1>{});
    } else {
      body(taps, columns, Constant<0>{});
    }
  };
  const auto with_columns = [&](auto taps) __attribute__((always_inline)) {
    const int columns = columns_for(axis.output);
    if (columns == 8) with_stride(taps, Constant<8>{});
    if (columns == 7) with_stride(taps, Constant<7>{});
    if (columns == 4) with_stride(taps, Constant<4>{});
  };
  if (axis.window % 7 == 0) return with_columns(Constant<7>{});
  if (axis.window % 5 == 0) return with_columns(Constant<5>{});
  if (axis.window % 3 == 0) return with_columns(Constant<3>{});
  with_columns(Constant<1>{});
}

}  // namespace carillon::CARILLON_ISA
