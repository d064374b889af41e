// The definition of lrn, and the op on a CPU. The op processes blocks of pixels that fit the first-level cache, and is
// vectorised over channels. For the shape of the CIFAR-10 network, there is a separate implementation in registers
// (lrn_registers below).
//
// A block's squares are in scratch memory, with `depth_radius` zeros before, between and after its pixels. Therefore a
// window is a plain sum at every channel. Backward computes s again from x. Storing s in forward would need a buffer of
// the size of x, and would take more time if the tensors exceed the second-level cache.
#include "kernels/lrn/lrn.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "carillon/core/parallel.h"
#include "kernels/lrn/lrn_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"
#include "kernels/shared/thread_scratch.h"

namespace carillon {
namespace {

// lrn with depth_radius 4, beta 0.75 and 64 channels on a CPU. It processes pixel by pixel, and the windows are in
// vector registers.
//
// The sum of a window of 9 is computed by doubling: first sums of two, then sums of four, then four + four + one. Each
// step shifts neighbouring vectors by some lanes. Only x, dy, y and dx are in memory, so that the processor can load
// them before the arithmetic needs them. If x and dy are not in the second-level cache, this implementation takes half
// the time of oneDNN's lrn. Vectors have the width of x86-64-v4's registers. Processors with narrower registers process
// a vector in parts.
namespace lrn_registers {

constexpr int lanes = 16, vectors = 4, channels = lanes * vectors, depth_radius = 4;

using Vector = float __attribute__((vector_size(lanes * sizeof(float))));
using UnalignedVector = float __attribute__((vector_size(lanes * sizeof(float)), aligned(alignof(float)), may_alias));

/// One value per channel of a pixel.
struct Row {
  Vector part[vectors];
};

[[gnu::always_inline]] inline Row load(const float* from) {
  Row row;
  for (int v = 0; v < vectors; ++v) row.part[v] = *reinterpret_cast<const UnalignedVector*>(from + v * lanes);
  return row;
}

[[gnu::always_inline]] inline void store(const Row& row, float* to) {
  for (int v = 0; v < vectors; ++v) *reinterpret_cast<UnalignedVector*>(to + v * lanes) = row.part[v];
}

template <int shift, int... lane>
[[gnu::always_inline]] inline void add_shifted(const Vector& low, const Vector& high, Vector& sum,
                                               std::integer_sequence<int, lane...>) {
  sum += __builtin_shufflevector(low, high, (lane + shift)...);
}

/// sum += lanes [shift, shift + 16) of the sequence `low`, `high`.
template <int shift>
[[gnu::always_inline]] inline void add_shifted(const Vector& low, const Vector& high, Vector& sum) {
  add_shifted<shift>(low, high, sum, std::make_integer_sequence<int, lanes>());
}

/// sums[c] = q[c - 4] + ... + q[c + 4], with zeros beyond the row.
[[gnu::always_inline]] inline Row window_sums(const Row& row) {
  Vector q[vectors + 2] = {}, pairs[vectors + 2] = {}, fours[vectors + 1];  // [1] starts at channel 0
  for (int v = 0; v < vectors; ++v) q[v + 1] = row.part[v];
  for (int v = 0; v <= vectors; ++v) {
    pairs[v] = q[v];
    add_shifted<1>(q[v], q[v + 1], pairs[v]);  // q[c], q[c + 1]
  }
  for (int v = 0; v <= vectors; ++v) {
    fours[v] = pairs[v];
    add_shifted<2>(pairs[v], pairs[v + 1], fours[v]);  // q[c] to q[c + 3]
  }
  Row sums;
  for (int v = 0; v < vectors; ++v) {
    sums.part[v] = fours[v + 1];
    add_shifted<lanes - depth_radius>(fours[v], fours[v + 1], sums.part[v]);
    add_shifted<depth_radius>(q[v + 1], q[v + 2], sums.part[v]);
  }
  return sums;
}

/// Computes s (lrn.h) at every channel.
[[gnu::always_inline]] inline void normalisers(const LrnParams& params, const Row& x, float* s) {
  Row squares;
  for (int v = 0; v < vectors; ++v) squares.part[v] = x.part[v] * x.part[v];
  Row sums = window_sums(squares);
  for (int v = 0; v < vectors; ++v) sums.part[v] = params.bias + params.alpha * sums.part[v];
  store(sums, s);
}

[[gnu::always_inline]] inline void forward(const LrnParams& params, const float* __restrict x, std::size_t pixels,
                                           float* __restrict y) {
  alignas(Vector) float s[channels];
  for (std::size_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    normalisers(params, load(x), s);
    for (int c = 0; c < channels; ++c) y[c] = x[c] * lrn_powers<true>(s[c], params.beta).scale;
  }
}

[[gnu::always_inline]] inline void backward(const LrnParams& params, const float* __restrict x,
                                            const float* __restrict dy, std::size_t pixels, float* __restrict dx) {
  const float factor = -2.0f * params.alpha * params.beta;
  alignas(Vector) float s[channels], direct[channels], terms[channels];
  for (std::size_t p = 0; p < pixels; ++p, x += channels, dy += channels, dx += channels) {
    const Row values = load(x);
    normalisers(params, values, s);
    for (int c = 0; c < channels; ++c) {
      const LrnPowers powers = lrn_powers<true>(s[c], params.beta);
      direct[c] = dy[c] * powers.scale;
      terms[c] = direct[c] * x[c] * powers.inverse;
    }
    const Row sums = window_sums(load(terms));
    Row gradient = load(direct);
    for (int v = 0; v < vectors; ++v) gradient.part[v] += factor * values.part[v] * sums.part[v];
    store(gradient, dx);
  }
}

}  // namespace lrn_registers

constexpr std::size_t block_floats = 1024;                    // number of floats for the squares of a block's pixels
constexpr int unrolled_radius = lrn_registers::depth_radius;  // sums over windows of this radius are unrolled

/// The layout of a block of pixels in scratch memory.
struct LrnLayout {
  std::size_t channels, radius;
  std::size_t row = channels + radius;                                ///< number of floats per pixel, including its
                                                                      ///< zeros
  std::size_t pixels = std::max<std::size_t>(1, block_floats / row);  ///< number of pixels of a full block
  std::size_t padded = (pixels * row + 2 * radius + 15) / 16 * 16;    ///< number of floats of a padded block
  std::size_t at(std::size_t pixel) const { return pixel * row; }  ///< start of the window of the pixel's first channel
  std::size_t inner(std::size_t pixel) const { return pixel * row + radius; }  ///< place of the pixel's first channel
};

/// The scratch memory of a thread. `squares` and `terms` are padded, and the padding stays zero.
struct LrnScratch {
  float* squares;          ///< x^2
  float* terms;            ///< dy x s^(-beta-1); only in backward
  float* sums;             ///< window sums, if the loop is not unrolled
  float *x, *dy, *result;  ///< if the tensors are bf16: a block of each tensor in float32
};

/// sums[i] = values[i] + ... + values[i + 2 radius].
[[gnu::always_inline]] inline void sum_windows(const float* __restrict values, std::size_t count, std::size_t radius,
                                               float* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = values[i];
  for (std::size_t shift = 1; shift <= 2 * radius; ++shift) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i + shift];
  }
}

/// Returns the input of lrn_window_sum<radius>: the values or, if radius is 0, their window sums.
template <int radius>
[[gnu::always_inline]] inline const float* windows_of(const float* values, const LrnLayout& layout, std::size_t pixels,
                                                      float* sums) {
  if constexpr (radius != 0) return values;
  sum_windows(values, pixels * layout.row, layout.radius, sums);
  return sums;
}

[[gnu::always_inline]] inline void square(const LrnLayout& layout, const float* __restrict x, std::size_t pixels,
                                          float* __restrict squares) {
  for (std::size_t p = 0; p < pixels; ++p) {
    const float* from = x + p * layout.channels;
    float* to = squares + layout.inner(p);
    for (std::size_t c = 0; c < layout.channels; ++c) to[c] = from[c] * from[c];
  }
}

template <int radius, bool three_quarters>
[[gnu::always_inline]] inline void forward_rows(const LrnParams& params, const LrnLayout& layout,
                                                const LrnScratch& scratch, const float* __restrict x,
                                                std::size_t pixels, float* __restrict y) {
  const float bias = params.bias, alpha = params.alpha, beta = params.beta;
  square(layout, x, pixels, scratch.squares);
  const float* windows = windows_of<radius>(scratch.squares, layout, pixels, scratch.sums);
  for (std::size_t p = 0; p < pixels; ++p, x += layout.channels, y += layout.channels) {
    const float* window = windows + layout.at(p);
    for (std::size_t c = 0; c < layout.channels; ++c) {
      y[c] = x[c] * lrn_powers<three_quarters>(bias + alpha * lrn_window_sum<radius>(window + c), beta).scale;
    }
  }
}

template <int radius, bool three_quarters>
[[gnu::always_inline]] inline void backward_rows(const LrnParams& params, const LrnLayout& layout,
                                                 const LrnScratch& scratch, const float* __restrict x,
                                                 const float* __restrict dy, std::size_t pixels, float* __restrict dx) {
  const float bias = params.bias, alpha = params.alpha, beta = params.beta;
  square(layout, x, pixels, scratch.squares);
  const float* windows = windows_of<radius>(scratch.squares, layout, pixels, scratch.sums);
  for (std::size_t p = 0; p < pixels; ++p) {
    const std::size_t first = p * layout.channels;
    const float* window = windows + layout.at(p);
    float* __restrict terms = scratch.terms + layout.inner(p);
    for (std::size_t c = 0; c < layout.channels; ++c) {
      const auto powers = lrn_powers<three_quarters>(bias + alpha * lrn_window_sum<radius>(window + c), beta);
      const float direct = dy[first + c] * powers.scale;
      dx[first + c] = direct;
      terms[c] = direct * x[first + c] * powers.inverse;
    }
  }
  windows = windows_of<radius>(scratch.terms, layout, pixels, scratch.sums);
  const float factor = -2.0f * alpha * beta;
  for (std::size_t p = 0; p < pixels; ++p, x += layout.channels, dx += layout.channels) {
    const float* window = windows + layout.at(p);
    for (std::size_t c = 0; c < layout.channels; ++c) dx[c] += factor * x[c] * lrn_window_sum<radius>(window + c);
  }
}

bool is_three_quarters(const LrnParams& params) { return params.beta == 0.75f; }

CARILLON_SIMD void forward_block(const LrnParams& params, const LrnLayout& layout, const LrnScratch& scratch,
                                 const float* x, std::size_t pixels, float* y) {
  if (!is_three_quarters(params)) return forward_rows<0, false>(params, layout, scratch, x, pixels, y);
  if (params.depth_radius != unrolled_radius) return forward_rows<0, true>(params, layout, scratch, x, pixels, y);
  if (layout.channels == lrn_registers::channels) return lrn_registers::forward(params, x, pixels, y);
  forward_rows<unrolled_radius, true>(params, layout, scratch, x, pixels, y);
}

CARILLON_SIMD void backward_block(const LrnParams& params, const LrnLayout& layout, const LrnScratch& scratch,
                                  const float* x, const float* dy, std::size_t pixels, float* dx) {
  if (!is_three_quarters(params)) return backward_rows<0, false>(params, layout, scratch, x, dy, pixels, dx);
  if (params.depth_radius != unrolled_radius) return backward_rows<0, true>(params, layout, scratch, x, dy, pixels, dx);
  if (layout.channels == lrn_registers::channels) return lrn_registers::backward(params, x, dy, pixels, dx);
  backward_rows<unrolled_radius, true>(params, layout, scratch, x, dy, pixels, dx);
}

class LrnCpu final : public Op {
 public:
  LrnCpu(const LrnParams& params, Device& device, const OpTensors& tensors)
      : params_(params),
        x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        layout_{static_cast<std::size_t>(x_.shape.extents().back()), static_cast<std::size_t>(params.depth_radius)},
        scratch_(device, 6 * layout_.padded * sizeof(float)) {
    if (tensors.output_gradients.empty()) return;
    dy_ = tensors.output_gradients.at(0);
    dx_ = tensors.input_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override {
    for_blocks([&](const LrnScratch& scratch, std::size_t first, std::size_t pixels) {
      const std::size_t count = pixels * layout_.channels;
      write_at(ElementPointer(y_) + first, count, scratch.result, [&](float* y) {
        forward_block(params_, layout_, scratch, floats_at(ElementPointer(x_) + first, count, scratch.x), pixels, y);
      });
    });
  }

  void backward(Stream& /*stream*/) override {
    if (!dx_) return;
    for_blocks([&](const LrnScratch& scratch, std::size_t first, std::size_t pixels) {
      const std::size_t count = pixels * layout_.channels;
      const float* const x = floats_at(ElementPointer(x_) + first, count, scratch.x);
      const float* const dy = floats_at(ElementPointer(dy_) + first, count, scratch.dy);
      write_at(ElementPointer(dx_) + first, count, scratch.result,
               [&](float* dx) { backward_block(params_, layout_, scratch, x, dy, pixels, dx); });
    });
  }

 private:
  /// Calls body(scratch, first element, pixels) for blocks that cover the tensor, in parallel.
  template <typename Body>
  void for_blocks(const Body& body) const {
    const std::size_t pixels = static_cast<std::size_t>(x_.shape.element_count()) / layout_.channels;
    constexpr std::size_t floats_worth_a_thread = 8192;
    const std::size_t grain = scratch_.grain(pixels, floats_worth_a_thread / layout_.channels);
    parallel_ranges(pixels, grain, [&](std::size_t begin, std::size_t end) {
      float* mine = scratch_.mine<float>();
      const auto piece = [&](std::size_t i) { return mine + i * layout_.padded; };
      const LrnScratch scratch{piece(0), piece(1), piece(2), piece(3), piece(4), piece(5)};
      for (std::size_t p = begin; p < end; p += layout_.pixels) {
        body(scratch, p * layout_.channels, std::min(layout_.pixels, end - p));
      }
    });
  }

  LrnParams params_;
  Tensor x_, y_, dx_, dy_;
  LrnLayout layout_;
  ThreadScratch scratch_;
};

class LrnDefinition final : public OpDefinition {
 public:
  explicit LrnDefinition(const LrnParams& params) : params_(params) {}
  std::string_view type() const override { return "lrn"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<LrnCpu>(params_, *context.device, tensors); },
        [&] { return make_lrn_cuda(params_, context, tensors); });
  }

 private:
  LrnParams params_;
};

const OpTraits lrn_traits{.samples_are_independent = true};

}  // namespace

const OpType lrn_op = op_type<LrnParams, lrn>("lrn");

Value lrn(Graph& graph, const std::string& name, Value x, const LrnParams& params) {
  check(params.depth_radius >= 0 && params.bias > 0.0f && params.alpha >= 0.0f,
        "lrn requires depth_radius >= 0, bias > 0 and alpha >= 0");
  LrnParams limited = params;  // before the first and after the last channel, the values count as 0
  limited.depth_radius =
      static_cast<int>(std::min<std::int64_t>(params.depth_radius, graph.shape(x).extents().back() - 1));
  return graph.add_op({.name = name,
                       .definition = std::make_shared<LrnDefinition>(limited),
                       .inputs = {x},
                       .traits = lrn_traits,
                       .type = &lrn_op,
                       .attributes = attributes_of(params)},
                      graph.shape(x));
}

}  // namespace carillon
