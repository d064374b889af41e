// The definition of avg_pool, and the op on a CPU. For each output, forward reads the pixels of its window. For each
// pixel, backward reads the windows that contain the pixel. Therefore only one thread writes each value.
#include "kernels/pool/pool.h"

#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/rows_cpu.h"
#include "kernels/shared/thread_scratch.h"
#include "kernels/shared/window.h"

namespace carillon {
namespace {

/// Adds the products of a pixel's channels and `factor` to the sums. The first pixel overwrites the sums.
template <typename T>
[[gnu::always_inline]] inline void add_pixel(const T* __restrict from, float factor, std::int64_t channels, bool first,
                                             float* __restrict to) {
  if (first) {
    for (std::int64_t c = 0; c < channels; ++c) to[c] = factor * to_float(from[c]);
  } else {
    for (std::int64_t c = 0; c < channels; ++c) to[c] += factor * to_float(from[c]);
  }
}

/// x: [height, width, channels] of one image; y: [output height, output width, channels]; scratch: [channels].
template <typename T>
[[gnu::always_inline]] inline void pool_image_of(const AvgPoolGeometry& g, std::int64_t channels, const T* __restrict x,
                                                 T* __restrict y, float* scratch) {
  for (std::int64_t p = 0; p < g.vertical.output; ++p) {
    const std::int64_t top = p * g.vertical.stride - g.vertical.before;
    const Interval<std::int64_t> rows = offsets_inside(g.vertical, p);
    for (std::int64_t q = 0; q < g.horizontal.output; ++q, y += channels) {
      const std::int64_t left = q * g.horizontal.stride - g.horizontal.before;
      const Interval<std::int64_t> columns = offsets_inside(g.horizontal, q);
      float* const sums = sums_of(y, scratch);
      bool first = true;
      for (std::int64_t i = rows.first; i < rows.last; ++i) {
        for (std::int64_t j = columns.first; j < columns.last; ++j, first = false) {
          add_pixel(x + ((top + i) * g.horizontal.input + left + j) * channels, 1.0f, channels, first, sums);
        }
      }
      const float share = share_of_each(g.vertical, g.horizontal, rows, columns, g.counts_padding);
      for (std::int64_t c = 0; c < channels; ++c) sums[c] *= share;
      store_sums(sums, channels, y);
    }
  }
}

/// The shapes are the same as in pool_image_of.
template <typename T>
[[gnu::always_inline]] inline void unpool_image_of(const AvgPoolGeometry& g, std::int64_t channels,
                                                   const T* __restrict dy, T* __restrict dx, float* scratch) {
  for (std::int64_t h = 0; h < g.vertical.input; ++h) {
    const Interval<std::int64_t> ps = windows_over(g.vertical, h);
    for (std::int64_t w = 0; w < g.horizontal.input; ++w, dx += channels) {
      const Interval<std::int64_t> qs = windows_over(g.horizontal, w);
      float* const sums = sums_of(dx, scratch);
      bool first = true;
      for (std::int64_t p = ps.first; p < ps.last; ++p) {
        for (std::int64_t q = qs.first; q < qs.last; ++q, first = false) {
          const float share = share_of_each(g.vertical, g.horizontal, offsets_inside(g.vertical, p),
                                            offsets_inside(g.horizontal, q), g.counts_padding);
          add_pixel(dy + (p * g.horizontal.output + q) * channels, share, channels, first, sums);
        }
      }
      if (first) std::fill_n(sums, channels, 0.0f);  // the pixel is between two windows, or after the last window
      store_sums(sums, channels, dx);
    }
  }
}

CARILLON_SIMD void pool_image(const AvgPoolGeometry& g, std::int64_t channels, ElementPointer x, ElementPointer y,
                              float* scratch) {
  with_float_type(
      x.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        pool_image_of(g, channels, x.as<const T>(), y.as<T>(), scratch);
      });
}

CARILLON_SIMD void unpool_image(const AvgPoolGeometry& g, std::int64_t channels, ElementPointer dy, ElementPointer dx,
                                float* scratch) {
  with_float_type(
      dy.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        unpool_image_of(g, channels, dy.as<const T>(), dx.as<T>(), scratch);
      });
}

class AvgPoolCpu final : public Op {
 public:
  AvgPoolCpu(const AvgPoolGeometry& geometry, Device& device, const OpTensors& tensors)
      : geometry_(geometry),
        tensors_(tensors),
        scratch_(device, static_cast<std::size_t>(channels()) * sizeof(float)) {}

  void forward(Stream& /*stream*/) override {
    for_each_image([&](std::int64_t n) {
      pool_image(geometry_, channels(), sample_of(tensors_.inputs[0], n), sample_of(tensors_.outputs[0], n),
                 scratch_.mine<float>());
    });
  }

  void backward(Stream& /*stream*/) override {
    if (!tensors_.input_gradients[0]) return;
    for_each_image([&](std::int64_t n) {
      unpool_image(geometry_, channels(), sample_of(tensors_.output_gradients[0], n),
                   sample_of(tensors_.input_gradients[0], n), scratch_.mine<float>());
    });
  }

 private:
  std::int64_t channels() const { return tensors_.inputs[0].shape[3]; }

  template <typename Body>
  void for_each_image(const Body& body) const {
    const Shape& x = tensors_.inputs[0].shape;
    const auto images = static_cast<std::size_t>(x[0]), size = static_cast<std::size_t>(x.elements_per_sample());
    parallel_items(images, size, scratch_.grain(images * size, elementwise_grain),
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t n = first; n < last; ++n) body(static_cast<std::int64_t>(n));
                   });
  }

  AvgPoolGeometry geometry_;
  OpTensors tensors_;
  ThreadScratch scratch_;
};

class AvgPoolDefinition final : public OpDefinition {
 public:
  explicit AvgPoolDefinition(const AvgPoolGeometry& geometry) : geometry_(geometry) {}
  std::string_view type() const override { return "avg_pool"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<AvgPoolCpu>(geometry_, *context.device, tensors); },
        [&] { return make_avg_pool_cuda(geometry_, context, tensors); });
  }

 private:
  AvgPoolGeometry geometry_;
};

const OpTraits avg_pool_traits{.samples_are_independent = true};

/// Returns the shape of `x`, [batch, height, width, channels].
Shape image_shape(const Graph& graph, const std::string& name, Value x) {
  const Shape shape = graph.shape(x);
  if (shape.rank() != 4) fail(ExitCode::failed, "avg_pool {}: input {} is not [n, h, w, c]", name, shape.text());
  return shape;
}

Graph::NewOp pool_op(const std::string& name, Value x, const AvgPoolGeometry& geometry, const OpType& type) {
  return {.name = name,
          .definition = std::make_shared<AvgPoolDefinition>(geometry),
          .inputs = {x},
          .traits = avg_pool_traits,
          .type = &type};
}

}  // namespace

const OpType avg_pool_op = op_type<AvgPoolParams, avg_pool>("avg_pool");
const OpType global_avg_pool_op = op_type<global_avg_pool>("global_avg_pool");

Value avg_pool(Graph& graph, const std::string& name, Value x, const AvgPoolParams& params) {
  const Shape input = image_shape(graph, name, x);
  const auto [vertical, horizontal] = params.windows(input);
  if (!vertical.pads_less_than_window() || !horizontal.pads_less_than_window())
    fail(ExitCode::failed, "avg_pool {}: the padding must be smaller than the window", name);
  const AvgPoolGeometry geometry{
      .vertical = vertical, .horizontal = horizontal, .counts_padding = params.counts_padding};
  Graph::NewOp op = pool_op(name, x, geometry, avg_pool_op);
  op.attributes = attributes_of(params);
  return graph.add_op(std::move(op), {input[0], vertical.output, horizontal.output, input[3]});
}

Value global_avg_pool(Graph& graph, const std::string& name, Value x) {
  const Shape input = image_shape(graph, name, x);
  const AvgPoolGeometry geometry{.vertical = slide(input[1], input[1], 1, Padding::valid),
                                 .horizontal = slide(input[2], input[2], 1, Padding::valid)};
  return graph.add_op(pool_op(name, x, geometry, global_avg_pool_op), {input[0], input[3]});
}

}  // namespace carillon
