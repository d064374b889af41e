// The definition of max_pool, and the op on a CPU. Forward stores the position of each maximum, one byte per output.
// For each input, backward reads these positions, so that each input gradient is written once and threads do not
// conflict.
#include "kernels/pool/pool.h"

#include <algorithm>
#include <vector>

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/rows_cpu.h"
#include "kernels/shared/thread_scratch.h"
#include "kernels/shared/window.h"

namespace carillon {
namespace {

/// Returns the number that a value stores. Compilers can vectorise a choice between numbers, but not a choice between
/// structs.
[[gnu::always_inline]] inline float& stored(float& value) { return value; }
[[gnu::always_inline]] inline std::uint16_t& stored(Bf16& value) { return value.bits; }
[[gnu::always_inline]] inline float stored(const float& value) { return value; }
[[gnu::always_inline]] inline std::uint16_t stored(const Bf16& value) { return value.bits; }

/// True if x replaces the maximum of a window. A NaN counts as larger than any number, so it stays the maximum.
[[gnu::always_inline]] inline bool replaces(float x, float maximum) { return (x > maximum) | (x != x); }
/// Does the same for bf16 values. Compares 16-bit integers, because a vector holds more 16-bit integers than floats.
/// The integers are made from the sign and the other bits of the values, and have the same order as the values. A NaN
/// of either sign becomes a number above infinity.
[[gnu::always_inline]] inline bool replaces(Bf16 x, Bf16 maximum) {
  constexpr std::int16_t infinity = 0x7f80;
  const auto magnitude = [](Bf16 of) { return static_cast<std::int16_t>(of.bits & 0x7fff); };
  const auto number = [&](Bf16 of) {
    const bool is_negative = (of.bits >> 15 != 0) & (magnitude(of) <= infinity);
    const auto sign = static_cast<std::int16_t>(-static_cast<std::int16_t>(is_negative));  // 0 or -1
    return static_cast<std::int16_t>((magnitude(of) ^ sign) - sign);
  };
  return (number(x) > number(maximum)) | (magnitude(x) > infinity);
}

/// Updates the maxima of the window with the channels of a pixel. The first pixel overwrites the maxima.
template <typename T>
[[gnu::always_inline]] inline void take_larger(const T* __restrict x, std::uint8_t position, std::int64_t channels,
                                               bool first, T* __restrict y, std::uint8_t* __restrict where) {
  if (first) {
    for (std::int64_t c = 0; c < channels; ++c) y[c] = x[c];
    for (std::int64_t c = 0; c < channels; ++c) where[c] = position;
  } else {
    for (std::int64_t c = 0; c < channels; ++c) {
      const bool better = replaces(x[c], y[c]);
      stored(y[c]) = better ? stored(x[c]) : stored(y[c]);
      where[c] = better ? position : where[c];
    }
  }
}

/// x: [height, width, channels] of one image; y, where: [output height, output width, channels].
template <typename T>
[[gnu::always_inline]] inline void pool_image_of(const MaxPoolGeometry& g, std::int64_t channels, const T* __restrict x,
                                                 T* __restrict y, std::uint8_t* __restrict where) {
  for (std::int64_t p = 0; p < g.vertical.output; ++p) {
    const std::int64_t top = p * g.vertical.stride - g.vertical.before;
    const Interval<std::int64_t> rows = offsets_inside(g.vertical, p);
    for (std::int64_t q = 0; q < g.horizontal.output; ++q, y += channels, where += channels) {
      const std::int64_t left = q * g.horizontal.stride - g.horizontal.before;
      const Interval<std::int64_t> columns = offsets_inside(g.horizontal, q);
      bool first = true;
      for (std::int64_t i = rows.first; i < rows.last; ++i) {
        for (std::int64_t j = columns.first; j < columns.last; ++j, first = false) {
          const std::int64_t pixel = (top + i) * g.horizontal.input + left + j;
          take_larger(x + pixel * channels, static_cast<std::uint8_t>(i * g.horizontal.window + j), channels, first, y,
                      where);
        }
      }
    }
  }
}

/// Adds the gradients of a window to the gradients of a pixel, in channels that have the maximum at `position`. The
/// first window overwrites the gradients of the pixel.
template <typename T>
[[gnu::always_inline]] inline void gather(const T* __restrict dy, const std::uint8_t* __restrict where,
                                          std::uint8_t position, std::int64_t channels, bool first,
                                          float* __restrict dx) {
  if (first) {
    for (std::int64_t c = 0; c < channels; ++c) dx[c] = where[c] == position ? to_float(dy[c]) : 0.0f;
  } else {
    for (std::int64_t c = 0; c < channels; ++c) dx[c] += where[c] == position ? to_float(dy[c]) : 0.0f;
  }
}

inline std::int64_t length_of(const Interval<std::int64_t>& interval) {
  return std::max<std::int64_t>(interval.last - interval.first, 0);
}

/// Writes the gradients of a pixel that is in one window only.
template <typename T>
[[gnu::always_inline]] inline void select(const T* __restrict dy, const std::uint8_t* __restrict where,
                                          std::uint8_t position, std::int64_t channels, T* __restrict dx) {
  for (std::int64_t c = 0; c < channels; ++c) stored(dx[c]) = where[c] == position ? stored(dy[c]) : stored(T{});
}

/// The shapes are the same as in pool_image_of. scratch: [channels].
template <typename T>
[[gnu::always_inline]] inline void unpool_image_of(const MaxPoolGeometry& g, std::int64_t channels,
                                                   const T* __restrict dy, const std::uint8_t* __restrict where,
                                                   T* __restrict dx, float* scratch) {
  for (std::int64_t h = 0; h < g.vertical.input; ++h) {
    const Interval<std::int64_t> ps = windows_over(g.vertical, h);
    for (std::int64_t w = 0; w < g.horizontal.input; ++w, dx += channels) {
      const Interval<std::int64_t> qs = windows_over(g.horizontal, w);
      const std::int64_t windows = length_of(ps) * length_of(qs);
      if (windows == 0) std::fill_n(dx, channels, T{});  // the pixel is between two windows, or after the last window
      float* const sums = sums_of(dx, scratch);
      bool first = true;
      for (std::int64_t p = ps.first; p < ps.last; ++p) {
        const std::int64_t i = h + g.vertical.before - p * g.vertical.stride;
        for (std::int64_t q = qs.first; q < qs.last; ++q, first = false) {
          const std::int64_t j = w + g.horizontal.before - q * g.horizontal.stride;
          const std::int64_t output = (p * g.horizontal.output + q) * channels;
          const auto position = static_cast<std::uint8_t>(i * g.horizontal.window + j);
          if (windows == 1) {
            select(dy + output, where + output, position, channels, dx);
          } else {
            gather(dy + output, where + output, position, channels, first, sums);
          }
        }
      }
      if (windows > 1) store_sums(sums, channels, dx);
    }
  }
}

CARILLON_SIMD void pool_image(const MaxPoolGeometry& g, std::int64_t channels, ElementPointer x, ElementPointer y,
                              std::uint8_t* where) {
  with_float_type(
      x.type(), [&]<typename T>(std::type_identity<T>)
                    __attribute__((always_inline)) { pool_image_of(g, channels, x.as<const T>(), y.as<T>(), where); });
}

CARILLON_SIMD void unpool_image(const MaxPoolGeometry& g, std::int64_t channels, ElementPointer dy,
                                const std::uint8_t* where, ElementPointer dx, float* scratch) {
  with_float_type(
      dy.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        unpool_image_of(g, channels, dy.as<const T>(), where, dx.as<T>(), scratch);
      });
}

CARILLON_SIMD void relu_values(ElementPointer values, std::int64_t count) {
  with_float_type(
      values.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        T* const y = values.as<T>();
        for (std::int64_t i = 0; i < count; ++i)
          stored(y[i]) = to_float(y[i]) < 0.0f ? stored(T{}) : stored(y[i]);  // NaN stays NaN
      });
}

CARILLON_SIMD void mask_gradients(ElementPointer values, std::int64_t count, ElementPointer gradients) {
  with_float_type(
      values.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* __restrict y = values.as<const T>();
        T* __restrict dy = gradients.as<T>();
        for (std::int64_t i = 0; i < count; ++i) stored(dy[i]) = to_float(y[i]) > 0.0f ? stored(dy[i]) : stored(T{});
      });
}

class MaxPoolCpu final : public Op {
 public:
  MaxPoolCpu(const MaxPoolGeometry& geometry, Device& device, const OpTensors& tensors)
      : geometry_(geometry),
        x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        where_(static_cast<std::size_t>(y_.shape.element_count())),
        scratch_(device, static_cast<std::size_t>(channels()) * sizeof(float)) {
    if (tensors.input_gradients.empty()) return;
    dx_ = tensors.input_gradients.at(0);
    dy_ = tensors.output_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override {
    for_each_image([&](std::int64_t n) {
      const ElementPointer y = sample_of(y_, n);
      pool_image(geometry_, channels(), sample_of(x_, n), y, where_.data() + n * y_size());
      if (geometry_.relu) relu_values(y, y_size());
    });
  }

  void backward(Stream& /*stream*/) override {
    if (!dx_) return;
    for_each_image([&](std::int64_t n) {
      const ElementPointer dy = sample_of(dy_, n);
      if (geometry_.relu) mask_gradients(sample_of(y_, n), y_size(), dy);
      unpool_image(geometry_, channels(), dy, where_.data() + n * y_size(), sample_of(dx_, n), scratch_.mine<float>());
    });
  }

 private:
  std::int64_t channels() const { return x_.shape[3]; }
  std::int64_t y_size() const { return y_.shape.elements_per_sample(); }

  template <typename Body>
  void for_each_image(const Body& body) const {
    const auto batch = static_cast<std::size_t>(x_.shape[0]),
               size = static_cast<std::size_t>(x_.shape.elements_per_sample());
    parallel_items(batch, size, scratch_.grain(batch * size, elementwise_grain),
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t n = first; n < last; ++n) body(static_cast<std::int64_t>(n));
                   });
  }

  MaxPoolGeometry geometry_;
  Tensor x_, y_, dx_, dy_;
  std::vector<std::uint8_t> where_;  ///< [y]: i * window + j of the maximum
  ThreadScratch scratch_;
};

class MaxPoolDefinition final : public OpDefinition {
 public:
  explicit MaxPoolDefinition(const MaxPoolForm& form) : form_(form) {}
  std::string_view type() const override { return "max_pool"; }
  BackwardNeeds backward_needs() const override { return {.inputs = false, .outputs = form_.geometry.relu}; }
  std::shared_ptr<const OpDefinition> with_relu_before() const {
    if (form_.has_biases) return nullptr;
    MaxPoolForm form = form_;
    form.geometry.relu = true;
    return std::make_shared<MaxPoolDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> with_biases_before() const {
    const auto& [vertical, horizontal, relu] = form_.geometry;
    const bool has_fewer_elements = vertical.output * horizontal.output < vertical.input * horizontal.input;
    if (form_.has_biases || !has_fewer_elements) return nullptr;
    MaxPoolForm form = form_;
    form.has_biases = true;
    return std::make_shared<MaxPoolDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> summing_gradients() const {
    if (form_.has_biases) return nullptr;  // refused: the kernel that sums the biases' gradient reads only one gradient
    MaxPoolForm form = form_;
    form.has_second_gradient = true;
    return std::make_shared<MaxPoolDefinition>(form);
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] {
          check(!form_.has_second_gradient, "only a max_pool on a GPU can read two gradients");
          return std::make_unique<MaxPoolCpu>(form_.geometry, *context.device, tensors);
        },
        [&] { return make_max_pool_cuda(form_, context, tensors); });
  }

 private:
  MaxPoolForm form_;
};

const OpTraits max_pool_traits{
    .with_relu_before = trait<&MaxPoolDefinition::with_relu_before>,
    .with_biases_before = trait<&MaxPoolDefinition::with_biases_before>,
    .summing_gradients = trait<&MaxPoolDefinition::summing_gradients>,
    .samples_are_independent = true,
};

}  // namespace

const OpType max_pool_op = op_type<MaxPoolParams, max_pool>("max_pool");

Value max_pool(Graph& graph, const std::string& name, Value x, const MaxPoolParams& params) {
  const Shape input = graph.shape(x);
  if (input.rank() != 4) fail(ExitCode::failed, "max_pool {}: input {} is not [n, h, w, c]", name, input.text());
  const auto [vertical, horizontal] = params.windows(input);
  constexpr std::int64_t most_positions = 256;  // the limit exists because a position is stored in one byte
  if (vertical.window * horizontal.window > most_positions) {
    fail(ExitCode::failed, "max_pool {}: the window {} x {} has more than {} positions", name, vertical.window,
         horizontal.window, most_positions);
  }
  if (!vertical.pads_less_than_window() || !horizontal.pads_less_than_window())
    fail(ExitCode::failed, "max_pool {}: the padding must be smaller than the window", name);
  const MaxPoolForm form{.geometry = {.vertical = vertical, .horizontal = horizontal, .relu = false}};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<MaxPoolDefinition>(form),
                       .inputs = {x},
                       .traits = max_pool_traits,
                       .type = &max_pool_op,
                       .attributes = attributes_of(params)},
                      {input[0], vertical.output, horizontal.output, input[3]});
}

}  // namespace carillon
