// DepthwiseKernels for one instruction set.
#include "kernels/depthwise_conv2d/depthwise_conv2d_blocks.h"

namespace carillon::CARILLON_ISA {
namespace {

/// Largest number of floats of an image that stays in the second-level cache together with its output.
constexpr std::int64_t cached_floats = 128 * 1024;

// The convolution. The scratch memory holds the filters [window * window][lanes] and then the ring of rows.

CARILLON_INLINE Ring convolution_ring(const DepthwiseConvolution& c, float* scratch) {
  const DepthwiseAxis &rows = c.vertical, &columns = c.horizontal;
  return {.data = scratch + rows.window * columns.window * lanes,
          .width = ring_width(columns, columns_for(columns.output)),
          .slots = power_of_two(rows.window)};
}

CARILLON_INLINE void copy_filters(const DepthwiseConvolution& c, const float* weights, std::int64_t channel,
                                  float* filters) {
  const std::int64_t taps = c.vertical.window * c.horizontal.window;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::int64_t from = c.turned ? taps - 1 - tap : tap;
    store(filters + tap * lanes, load_within(weights + from * c.channels, channel, c.channels));
  }
}

/// Stores `count` pixels of an output row.
CARILLON_INLINE void store_pixels(const Channels& to, std::int64_t row, std::int64_t q, const Floats* values,
                                  std::int64_t count) {
  with_elements(
      to.image, to.is_bf16, [&]<typename T>(const T* image) __attribute__((always_inline)) {
        T* pixel = const_cast<T*>(image) + row * to.row + q * to.step + to.first;
        for (std::int64_t k = 0; k < count; ++k, pixel += to.step) store_channels(pixel, values[k], to.count);
      });
}

/// Computes a block of output columns of output row p, starting at column q. `first`: the first input row of the
/// block's window.
template <typename B>
CARILLON_INLINE void convolve_block(const DepthwiseConvolution& c, const InputRows& x, const float* filters,
                                    Floats bias, const Channels& y, std::int64_t p, std::int64_t q,
                                    std::int64_t first) {
  const DepthwiseAxis &vertical = c.vertical, &horizontal = c.horizontal;
  Floats sums[B::columns];
  for (Floats& sum : sums) sum = bias;
  std::int64_t i = first * vertical.spacing + vertical.before - p * vertical.stride;
  for (std::int64_t h = first; h < x.next && i < vertical.window; ++h, i += vertical.spacing) {
    const float* const pixels = x.ring.row(h) + q * horizontal.stride * lanes;
    const float* const filter = filters + i * horizontal.window * lanes;
    for (std::int64_t j = 0; j < horizontal.window; j += B::taps) {
      add_taps<B>(pixels + j * lanes, filter + j * lanes, horizontal.stride, sums);
    }
  }
  store_pixels(y, p, q, sums, least(B::columns, horizontal.output - q));
}

template <int taps, int columns, int stride>
void convolve_rows(const DepthwiseConvolution& c, InputRows x, const float* filters, Floats bias, const Channels& y) {
  const bool prefetches = c.vertical.input * x.x.row > (c.is_bf16 ? 2 : 1) * cached_floats;
  for (std::int64_t p = 0; p < c.vertical.output; ++p) {
    const std::int64_t top = p * c.vertical.stride - c.vertical.before, first = first_row(c.vertical, top);
    x.copy(first, top + c.vertical.window);
    if (prefetches) {
      x.x.prefetch<false>(x.next, c.horizontal.input);
      y.prefetch<true>(p + 1, c.horizontal.output);
    }
    for (std::int64_t q = 0; q < c.horizontal.output; q += columns) {
      with_block<taps, columns, stride>(
          c.horizontal, q, [&]<typename B>(B) __attribute__((always_inline)) {
            convolve_block<B>(c, x, filters, bias, y, p, q, first);
          });
    }
  }
}

std::int64_t convolution_scratch(const DepthwiseConvolution& c) {
  return c.vertical.window * c.horizontal.window * lanes + convolution_ring(c, nullptr).floats();
}

void convolve(const DepthwiseConvolution& c, const void* x, const float* weights, const float* biases,
              std::int64_t channel, void* y, float* scratch) {
  copy_filters(c, weights, channel, scratch);
  const Floats bias = biases != nullptr ? load_within(biases, channel, c.channels) : broadcast(0.0f);
  const InputRows rows{c, Channels(x, c, c.horizontal.input, channel), convolution_ring(c, scratch)};
  const Channels output(y, c, c.horizontal.output, channel);
  with_form(
      c.horizontal, [&](auto taps, auto columns, auto stride) __attribute__((always_inline)) {
        convolve_rows<taps.value, columns.value, stride.value>(c, rows, scratch, bias, output);
      });
}

// Gradients of the weights and biases. The scratch memory holds the ring of x and then a strip of rows of dy.

struct GradientLayout {
  std::int64_t strip;  ///< number of rows of dy that are processed together; these rows and their rows of x stay in the
                       ///< cache
  Ring x, dy;

  GradientLayout(const DepthwiseConvolution& c, float* scratch) {
    const DepthwiseAxis &rows = c.vertical, &columns = c.horizontal;
    constexpr std::int64_t cache_floats = 7168;
    const std::int64_t x_width = ring_width(columns, columns_for(columns.output));
    const std::int64_t dy_width = rounded_up(columns.output, columns_for(columns.output));
    const std::int64_t left = cache_floats / lanes - rows.window * x_width;
    const std::int64_t longest = most(left, 0) / (rows.stride * x_width + dy_width) + 1;
    const std::int64_t strips = (rows.output + longest - 1) / longest;
    strip = (rows.output + strips - 1) / strips;
    x = {.data = scratch, .width = x_width, .slots = power_of_two((strip - 1) * rows.stride + rows.window)};
    dy = {.data = scratch + x.floats(), .width = dy_width, .slots = power_of_two(strip)};
  }
};

/// Adds the gradients of filter row i to `sums`, for the filter columns from j on. Uses the rows [first, last) of dy
/// and a block of output columns that starts at column q.
template <typename B>
CARILLON_INLINE void add_block(const DepthwiseConvolution& c, const GradientLayout& layout, std::int64_t first,
                               std::int64_t last, std::int64_t i, std::int64_t j, std::int64_t q,
                               Floats (&sums)[B::taps]) {
  const DepthwiseAxis &vertical = c.vertical, &horizontal = c.horizontal;
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t h = p * vertical.stride - vertical.before + i;
    if (h < 0 || h >= vertical.input) continue;
    add_columns<B>(layout.x.row(h) + (q * horizontal.stride + j) * lanes, layout.dy.row(p) + q * lanes,
                   horizontal.stride, sums);
  }
}

template <int taps, int columns, int stride>
CARILLON_INLINE void add_filter_row(const DepthwiseConvolution& c, const GradientLayout& layout, std::int64_t first,
                                    std::int64_t last, std::int64_t i, float* sums) {
  const DepthwiseAxis& horizontal = c.horizontal;
  for (std::int64_t j = 0; j < horizontal.window; j += taps) {
    float* const to = sums + (i * horizontal.window + j) * lanes;
    Floats totals[taps];
    for (int k = 0; k < taps; ++k) totals[k] = load(to + k * lanes);
    for (std::int64_t q = 0; q < horizontal.output; q += columns) {
      with_block<taps, columns, stride>(
          horizontal, q, [&]<typename B>(B) __attribute__((always_inline)) {
            add_block<B>(c, layout, first, last, i, j, q, totals);
          });
    }
    for (int k = 0; k < taps; ++k) store(to + k * lanes, totals[k]);
  }
}

template <int taps, int columns, int stride>
void add_gradient_rows(const DepthwiseConvolution& c, InputRows x, const Channels& dy, const GradientLayout& layout,
                       float* sums) {
  const DepthwiseAxis& vertical = c.vertical;
  float* const bias_sums = sums + vertical.window * c.horizontal.window * lanes;
  for (std::int64_t first = 0; first < vertical.output; first += layout.strip) {
    const std::int64_t last = least(first + layout.strip, vertical.output);
    const std::int64_t top = first * vertical.stride - vertical.before;
    x.copy(first_row(vertical, top), (last - 1) * vertical.stride - vertical.before + vertical.window);
    Floats bias_sum = load(bias_sums);
    for (std::int64_t p = first; p < last; ++p) {
      copy_row(dy, p, c.horizontal.output, 1, layout.dy.row(p), &bias_sum);
    }
    store(bias_sums, bias_sum);
    for (std::int64_t i = 0; i < vertical.window; ++i) {
      for (std::int64_t k = i; k < layout.strip; k += vertical.window) {
        dy.prefetch<false>(last + k, c.horizontal.output);
        x.x.prefetch<false>(x.next + k, c.horizontal.input);
      }
      add_filter_row<taps, columns, stride>(c, layout, first, last, i, sums);
    }
  }
}

std::int64_t gradient_scratch(const DepthwiseConvolution& c) {
  const GradientLayout layout(c, nullptr);
  return layout.x.floats() + layout.dy.floats();
}

void add_gradients(const DepthwiseConvolution& c, const void* x, const void* dy, std::int64_t channel, float* sums,
                   float* scratch) {
  const GradientLayout layout(c, scratch);
  const InputRows rows{c, Channels(x, c, c.horizontal.input, channel), layout.x};
  const Channels gradients(dy, c, c.horizontal.output, channel);
  with_form(
      c.horizontal, [&](auto taps, auto columns, auto stride) __attribute__((always_inline)) {
        add_gradient_rows<taps.value, columns.value, stride.value>(c, rows, gradients, layout, sums);
      });
}

constexpr DepthwiseKernels kernels{.lanes = lanes,
                                   .convolution_scratch = convolution_scratch,
                                   .gradient_scratch = gradient_scratch,
                                   .convolve = convolve,
                                   .add_gradients = add_gradients};

}  // namespace

const DepthwiseKernels* depthwise_kernels() { return &kernels; }

}  // namespace carillon::CARILLON_ISA
