// avg_pool on a CPU. Forward gathers from a window's pixels and backward from a pixel's windows, so that one thread
// writes each value.
#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/avg_pool/avg_pool.h"
#include "kernels/shared/window_overlap.h"

namespace carillon {
namespace {

/// Adds a pixel's channels, times `factor`; the first pixel sets them.
[[gnu::always_inline]] inline void add_pixel(const float* __restrict from, float factor, std::int64_t channels,
                                             bool first, float* __restrict to) {
  if (first) {
    for (std::int64_t c = 0; c < channels; ++c) to[c] = factor * from[c];
  } else {
    for (std::int64_t c = 0; c < channels; ++c) to[c] += factor * from[c];
  }
}

/// x: [height, width, channels] of one image; y: [output height, output width, channels].
CARILLON_SIMD void pool_image(const AvgPoolGeometry& g, std::int64_t channels, const float* __restrict x,
                              float* __restrict y) {
  for (std::int64_t p = 0; p < g.vertical.output; ++p) {
    const std::int64_t top = p * g.vertical.stride - g.vertical.before;
    const Interval<std::int64_t> rows = offsets_inside(g.vertical, p);
    for (std::int64_t q = 0; q < g.horizontal.output; ++q, y += channels) {
      const std::int64_t left = q * g.horizontal.stride - g.horizontal.before;
      const Interval<std::int64_t> columns = offsets_inside(g.horizontal, q);
      bool first = true;
      for (std::int64_t i = rows.first; i < rows.last; ++i) {
        for (std::int64_t j = columns.first; j < columns.last; ++j, first = false) {
          add_pixel(x + ((top + i) * g.horizontal.input + left + j) * channels, 1.0f, channels, first, y);
        }
      }
      const float share = share_of_each(rows, columns);
      for (std::int64_t c = 0; c < channels; ++c) y[c] *= share;
    }
  }
}

/// Shapes as in pool_image.
CARILLON_SIMD void unpool_image(const AvgPoolGeometry& g, std::int64_t channels, const float* __restrict dy,
                                float* __restrict dx) {
  for (std::int64_t h = 0; h < g.vertical.input; ++h) {
    const Interval<std::int64_t> ps = windows_over(g.vertical, h);
    for (std::int64_t w = 0; w < g.horizontal.input; ++w, dx += channels) {
      const Interval<std::int64_t> qs = windows_over(g.horizontal, w);
      bool first = true;
      for (std::int64_t p = ps.first; p < ps.last; ++p) {
        for (std::int64_t q = qs.first; q < qs.last; ++q, first = false) {
          const float share = share_of_each(offsets_inside(g.vertical, p), offsets_inside(g.horizontal, q));
          add_pixel(dy + (p * g.horizontal.output + q) * channels, share, channels, first, dx);
        }
      }
      if (first) std::fill_n(dx, channels, 0.0f);  // between windows, or after the last
    }
  }
}

class AvgPoolCpu final : public Op {
 public:
  AvgPoolCpu(const AvgPoolGeometry& geometry, const OpTensors& tensors) : geometry_(geometry), tensors_(tensors) {}

  void forward(Stream& /*stream*/) override {
    for_each_image([&](std::int64_t n) {
      pool_image(geometry_, channels(), image_of(tensors_.inputs[0], n), image_of(tensors_.outputs[0], n));
    });
  }

  void backward(Stream& /*stream*/) override {
    if (!tensors_.input_gradients[0]) return;
    for_each_image([&](std::int64_t n) {
      unpool_image(geometry_, channels(), image_of(tensors_.output_gradients[0], n),
                   image_of(tensors_.input_gradients[0], n));
    });
  }

 private:
  std::int64_t channels() const { return tensors_.inputs[0].shape[3]; }
  static float* image_of(const Tensor& tensor, std::int64_t n) {
    return tensor.floats().data() + n * tensor.shape.elements_per_sample();
  }

  template <typename Body>
  void for_each_image(const Body& body) const {
    const Shape& x = tensors_.inputs[0].shape;
    parallel_items(static_cast<std::size_t>(x[0]), static_cast<std::size_t>(x.elements_per_sample()), elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t n = first; n < last; ++n) body(static_cast<std::int64_t>(n));
                   });
  }

  AvgPoolGeometry geometry_;
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_avg_pool_cpu(const AvgPoolGeometry& geometry, const OpContext& /*context*/,
                                      const OpTensors& tensors) {
  return std::make_unique<AvgPoolCpu>(geometry, tensors);
}

}  // namespace carillon
