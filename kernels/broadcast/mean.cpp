// The definition of mean, and the op on a CPU. The op loops over the rows of x. A row consists of the elements along
// the last of the BroadcastAxes. The BroadcastAxes describe y as an operand that is repeated to the shape of x.
#include "kernels/broadcast/broadcast.h"

#include <algorithm>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/broadcast/broadcast_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"

namespace carillon {
namespace {

/// Adds element i of a row to sums[i], or to sums[0] if the stride is 0.
CARILLON_SIMD void add_row(ElementPointer x, std::int64_t count, float* sums, std::int64_t stride) {
  with_float_type(
      x.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const from = x.as<const T>();
        if (stride == 0) {
          float sum = *sums;
          for (std::int64_t i = 0; i < count; ++i) sum += to_float(from[i]);
          *sums = sum;
        } else {
          for (std::int64_t i = 0; i < count; ++i) sums[i] += to_float(from[i]);
        }
      });
}

/// Writes factor * dy to a row of dx.
CARILLON_SIMD void spread_row(ElementPointer dy, std::int64_t stride, float factor, std::int64_t count,
                              ElementPointer dx) {
  with_float_type(
      dx.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const from = dy.as<const T>();
        T* const to = dx.as<T>();
        if (stride == 0) {
          std::fill_n(to, count, stored_as<T>(factor * to_float(*from)));
        } else {
          for (std::int64_t i = 0; i < count; ++i) to[i] = stored_as<T>(factor * to_float(from[i]));
        }
      });
}

class MeanCpu final : public Op {
 public:
  MeanCpu(const Shape& kept, const OpTensors& tensors)
      : tensors_(tensors),
        axes_(broadcast_axes(kept, tensors.inputs.at(0).shape)),
        sums_(static_cast<std::size_t>(kept.element_count())) {}

  void forward(Stream& /*stream*/) override {
    const Tensor &x = tensors_.inputs[0], &y = tensors_.outputs[0];
    const BroadcastAxis& last = axes_.at[axes_.count - 1];
    const std::int64_t y_size = y.shape.elements_per_sample(), x_size = x.shape.elements_per_sample();
    const float count = static_cast<float>(x_size / y_size);
    for_samples(x, [&](std::int64_t sample) {
      float* const sums = sums_.data() + sample * y_size;
      std::fill_n(sums, y_size, 0.0f);
      for (std::int64_t at = 0; at < x_size; at += last.extent) {
        add_row(sample_of(x, sample) + static_cast<std::size_t>(at), last.extent, sums + place_of(axes_, at).a, last.a);
      }
      for (std::int64_t i = 0; i < y_size; ++i) sums[i] /= count;
      write_floats(sums, static_cast<std::size_t>(y_size), sample_of(y, sample));
    });
  }

  void backward(Stream& /*stream*/) override {
    const Tensor &dy = tensors_.output_gradients.at(0), &dx = tensors_.input_gradients.at(0);
    if (!dx) return;
    const BroadcastAxis& last = axes_.at[axes_.count - 1];
    const std::int64_t y_size = dy.shape.elements_per_sample(), x_size = dx.shape.elements_per_sample();
    const float factor = 1.0f / static_cast<float>(x_size / y_size);
    for_samples(dx, [&](std::int64_t sample) {
      for (std::int64_t at = 0; at < x_size; at += last.extent) {
        spread_row(sample_of(dy, sample) + static_cast<std::size_t>(place_of(axes_, at).a), last.a, factor, last.extent,
                   sample_of(dx, sample) + static_cast<std::size_t>(at));
      }
    });
  }

 private:
  template <typename Body>
  static void for_samples(const Tensor& x, const Body& body) {
    parallel_items(static_cast<std::size_t>(x.shape[0]), static_cast<std::size_t>(x.shape.elements_per_sample()),
                   elementwise_grain, [&](std::size_t first, std::size_t last) {
                     for (std::size_t i = first; i < last; ++i) body(static_cast<std::int64_t>(i));
                   });
  }

  OpTensors tensors_;
  BroadcastAxes axes_;
  std::vector<float> sums_;  ///< one sum for each element of y
};

class MeanDefinition final : public OpDefinition {
 public:
  explicit MeanDefinition(std::vector<std::size_t> axes) : axes_(std::move(axes)) {}
  std::string_view type() const override { return "mean"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    std::vector<std::int64_t> extents = tensors.inputs.at(0).shape.extents();
    for (const std::size_t axis : axes_) extents[axis] = 1;
    const Shape kept(std::move(extents));
    return on_device(
        context, [&] { return std::make_unique<MeanCpu>(kept, tensors); },
        [&] { return make_mean_cuda(kept, tensors); });
  }

 private:
  std::vector<std::size_t> axes_;
};

}  // namespace

const OpType mean_op = op_type<MeanParams, mean>("mean");

std::vector<std::size_t> mean_axes(const MeanParams& params, const Shape& x) {
  const auto rank = static_cast<std::int64_t>(x.rank());
  std::vector<std::size_t> axes;
  for (const std::int64_t given : params.axes) {
    const std::int64_t axis = given < 0 ? given + rank : given;
    if (axis < 1 || axis >= rank || std::ranges::count(axes, static_cast<std::size_t>(axis)) > 0) {
      fail(ExitCode::failed, "a tensor {} has no axis {} for a mean, or the axis is listed twice", x.text(), given);
    }
    axes.push_back(static_cast<std::size_t>(axis));
  }
  if (axes.empty()) fail(ExitCode::failed, "a mean requires an axis");
  return axes;
}

Value mean(Graph& graph, const std::string& name, Value x, const MeanParams& params) {
  const Shape shape = graph.shape(x);
  const std::vector<std::size_t> axes = mean_axes(params, shape);
  std::vector<std::int64_t> kept = shape.extents(), rest;
  for (const std::size_t axis : axes) kept[axis] = 1;
  broadcast_axes(Shape(kept), shape);  // throws if there are too many axes
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (std::ranges::count(axes, axis) == 0) rest.push_back(shape[axis]);
  }
  return graph.add_op({.name = name,
                       .definition = std::make_shared<MeanDefinition>(axes),
                       .inputs = {x},
                       .traits = {.samples_are_independent = true},
                       .type = &mean_op,
                       .attributes = attributes_of(params)},
                      Shape(params.keeps_axes ? std::move(kept) : std::move(rest)));
}

}  // namespace carillon
