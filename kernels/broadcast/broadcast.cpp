// BroadcastAxes, the definition of multiply and add, and the ops on a CPU. The ops loop over the rows of y. A row
// consists of the elements along the last of the BroadcastAxes.
#include "kernels/broadcast/broadcast.h"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/broadcast/broadcast_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"

namespace carillon {
namespace {

[[noreturn]] void refuse(const Shape& a, const Shape& b) {
  fail(ExitCode::failed, "the shapes {} and {} cannot be broadcast", a.text(), b.text());
}

/// Returns the extent of the axis that is `from_end` axes before the last axis, or 1 if the sample has no such axis.
std::int64_t extent_of(const Shape& shape, std::size_t from_end) {
  return from_end + 1 < shape.rank() ? shape[shape.rank() - 1 - from_end] : 1;
}

bool continues(std::int64_t outer, std::int64_t inner, std::int64_t extent) { return outer == inner * extent; }

void append(BroadcastAxes& axes, const BroadcastAxis& axis) {
  if (axes.count == BroadcastAxes::max_count) {
    fail(ExitCode::failed, "tensors with more than {} groups of axes cannot be broadcast", BroadcastAxes::max_count);
  }
  axes.at[axes.count++] = axis;
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0 || a[0] != b[0]) refuse(a, b);
  const std::size_t axes = std::max(a.rank(), b.rank()) - 1;
  std::vector<std::int64_t> extents{a[0]};
  for (std::size_t i = axes; i-- > 0;) {
    const std::int64_t of_a = extent_of(a, i), of_b = extent_of(b, i);
    if (of_a != of_b && of_a != 1 && of_b != 1) refuse(a, b);
    extents.push_back(of_a == 1 ? of_b : of_a);
  }
  return Shape(std::move(extents));
}

BroadcastAxes broadcast_axes(const Shape& a, const Shape& b) {
  const Shape y = broadcast_shape(a, b);
  std::vector<BroadcastAxis> found;  // innermost first
  BroadcastAxis stride{.y = 1, .a = 1, .b = 1};
  for (std::size_t i = 0; i + 1 < y.rank(); ++i) {
    const std::int64_t extent = extent_of(y, i), of_a = extent_of(a, i), of_b = extent_of(b, i);
    if (extent == 1) continue;
    const BroadcastAxis axis{
        .extent = extent, .y = stride.y, .a = of_a == 1 ? 0 : stride.a, .b = of_b == 1 ? 0 : stride.b};
    stride = {.y = stride.y * extent, .a = stride.a * of_a, .b = stride.b * of_b};
    if (!found.empty()) {
      BroadcastAxis& inner = found.back();
      if (continues(axis.a, inner.a, inner.extent) && continues(axis.b, inner.b, inner.extent)) {
        inner.extent *= extent;
        continue;
      }
    }
    found.push_back(axis);
  }
  if (found.empty()) found.push_back({.y = 1, .a = 1, .b = 1});
  BroadcastAxes axes;
  for (std::size_t i = found.size(); i-- > 0;) append(axes, found[i]);
  return axes;
}

BroadcastAxes exchanged(BroadcastAxes axes) {
  for (BroadcastAxis& axis : std::span(axes.at).first(static_cast<std::size_t>(axes.count))) std::swap(axis.a, axis.b);
  return axes;
}

GradientAxes gradient_axes(const BroadcastAxes& axes) {
  GradientAxes divided;
  for (const BroadcastAxis& axis : std::span(axes.at).first(static_cast<std::size_t>(axes.count))) {
    append(axis.a != 0 ? divided.kept : divided.summed, axis);
  }
  return divided;
}

namespace {

struct Product {
  static float value(float a, float b) { return a * b; }
};
struct Sum {
  static float value(float a, float b) { return a + b; }
};
/// For `add`: each term of the gradient is dy.
struct First {
  static float value(float dy, float /*other*/) { return dy; }
};

/// Calls body with the stride, 0 or 1, as a constant.
template <typename Body>
[[gnu::always_inline]] inline void with_stride(std::int64_t stride, const Body& body) {
  if (stride == 0) return body(std::integral_constant<std::int64_t, 0>{});
  body(std::integral_constant<std::int64_t, 1>{});
}

/// Computes y = f(a, b) for a row of `count` elements.
template <typename F, typename T>
[[gnu::always_inline]] inline void map_elements(const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride,
                                                std::int64_t count, T* __restrict y) {
  with_stride(
      a_stride, [&](auto of_a) __attribute__((always_inline)) {
        with_stride(
            b_stride, [&](auto of_b) __attribute__((always_inline)) {
              for (std::int64_t i = 0; i < count; ++i) {
                y[i] = stored_as<T>(F::value(to_float(a[i * of_a()]), to_float(b[i * of_b()])));
              }
            });
      });
}

/// If sums_stride is 0, adds the terms f(dy[i], other) of a row to sums[0]. If sums_stride is 1, adds term i to
/// sums[i].
template <typename F, typename T>
[[gnu::always_inline]] inline void add_terms(const T* dy, const T* other, std::int64_t other_stride, std::int64_t count,
                                             float* __restrict sums, std::int64_t sums_stride) {
  with_stride(
      other_stride, [&](auto of_other) __attribute__((always_inline)) {
        with_stride(
            sums_stride, [&](auto of_sums) __attribute__((always_inline)) {
              for (std::int64_t i = 0; i < count; ++i) {
                sums[i * of_sums()] += F::value(to_float(dy[i]), to_float(other[i * of_other()]));
              }
            });
      });
}

/// The positions of one row in a, b and y. In backward, y is dy. The row of y is contiguous.
struct Row {
  ElementPointer a, b, y;
  std::int64_t a_stride = 0, b_stride = 0, count = 0;
};

template <typename F>
CARILLON_SIMD void map_row(const Row& row) {
  with_float_type(
      row.y.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        map_elements<F>(row.a.as<const T>(), row.a_stride, row.b.as<const T>(), row.b_stride, row.count, row.y.as<T>());
      });
}

/// Adds the terms of a row to `sums`, the float32 gradient of operand a. `row.y` is dy, and `row.b` is the other
/// operand.
template <typename F>
CARILLON_SIMD void add_row(const Row& row, float* sums) {
  with_float_type(
      row.y.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        add_terms<F>(row.y.as<const T>(), row.b.as<const T>(), row.b_stride, row.count, sums, row.a_stride);
      });
}

class BroadcastCpu final : public Op {
 public:
  BroadcastCpu(BroadcastFunction function, const OpTensors& tensors)
      : function_(function),
        tensors_(tensors),
        axes_(broadcast_axes(tensors.inputs.at(0).shape, tensors.inputs.at(1).shape)) {
    for (const Tensor& gradient : tensors.input_gradients) {
      if (gradient && is_repeated(gradient)) sums_.resize(std::max(sums_.size(), count_of(gradient)));
    }
  }

  void forward(Stream& /*stream*/) override {
    const Tensor &a = tensors_.inputs[0], &b = tensors_.inputs[1], &y = tensors_.outputs[0];
    for_rows(axes_, a, b, y, function_ == BroadcastFunction::multiply ? map_row<Product> : map_row<Sum>);
  }

  void backward(Stream& /*stream*/) override {
    find_gradient(0, axes_);
    find_gradient(1, exchanged(axes_));
  }

 private:
  static std::size_t count_of(const Tensor& tensor) { return static_cast<std::size_t>(tensor.shape.element_count()); }
  bool is_repeated(const Tensor& operand) const { return count_of(operand) < count_of(tensors_.outputs[0]); }
  static std::int64_t rows_of(const BroadcastAxes& axes) { return axes.elements() / axes.at[axes.count - 1].extent; }

  /// Returns row number `row` of a sample.
  static Row row_of(const BroadcastAxes& axes, ElementPointer a, ElementPointer b, ElementPointer y, std::int64_t row) {
    const BroadcastAxis& last = axes.at[axes.count - 1];
    const BroadcastPlace place = place_of(axes, row * last.extent);
    return {.a = a + static_cast<std::size_t>(place.a),
            .b = b + static_cast<std::size_t>(place.b),
            .y = y + static_cast<std::size_t>(place.y),
            .a_stride = last.a,
            .b_stride = last.b,
            .count = last.extent};
  }

  /// Calls body for each row of y.
  template <typename Body>
  void for_rows(const BroadcastAxes& axes, const Tensor& a, const Tensor& b, const Tensor& y, const Body& body) const {
    const std::int64_t rows = rows_of(axes);
    parallel_items(
        static_cast<std::size_t>(y.shape[0] * rows), static_cast<std::size_t>(axes.at[axes.count - 1].extent),
        elementwise_grain, [&](std::size_t first, std::size_t last) {
          for (auto i = static_cast<std::int64_t>(first); i < static_cast<std::int64_t>(last); ++i) {
            const std::int64_t sample = i / rows;
            body(row_of(axes, sample_of(a, sample), sample_of(b, sample), sample_of(y, sample), i - sample * rows));
          }
        });
  }

  /// `axes`: the broadcast axes. For operand 1, `axes` must be exchanged(), because the loops compute the gradient of
  /// operand a.
  void find_gradient(std::size_t operand, const BroadcastAxes& axes) {
    const Tensor &dy = tensors_.output_gradients.at(0), &gradient = tensors_.input_gradients.at(operand);
    if (!gradient) return;
    const Tensor& other = tensors_.inputs[1 - operand];
    const bool multiplies = function_ == BroadcastFunction::multiply;
    if (is_repeated(gradient))
      return sum_gradient(axes, dy, other, gradient, multiplies ? add_row<Product> : add_row<First>);
    // An operand that is not repeated has the extents of y, so its gradient has the strides of y.
    BroadcastAxes of_map = axes;
    for (int i = 0; i < of_map.count; ++i) of_map.at[i].a = of_map.at[i].y;
    for_rows(of_map, dy, other, gradient, multiplies ? map_row<Product> : map_row<First>);
  }

  template <typename AddRow>
  void sum_gradient(const BroadcastAxes& axes, const Tensor& dy, const Tensor& other, const Tensor& gradient,
                    const AddRow& add) {
    const std::int64_t rows = rows_of(axes), count = gradient.shape.elements_per_sample();
    parallel_items(static_cast<std::size_t>(dy.shape[0]), static_cast<std::size_t>(dy.shape.elements_per_sample()),
                   elementwise_grain, [&](std::size_t first, std::size_t last) {
                     for (auto s = static_cast<std::int64_t>(first); s < static_cast<std::int64_t>(last); ++s) {
                       float* const sums = sums_.data() + s * count;
                       std::fill_n(sums, count, 0.0f);
                       for (std::int64_t i = 0; i < rows; ++i) {
                         const Row row = row_of(axes, sums, sample_of(other, s), sample_of(dy, s), i);
                         add(row, row.a.as<float>());
                       }
                       write_floats(sums, static_cast<std::size_t>(count), sample_of(gradient, s));
                     }
                   });
  }

  BroadcastFunction function_;
  OpTensors tensors_;
  BroadcastAxes axes_;
  std::vector<float> sums_;  ///< [batch, elements of a repeated operand], in training
};

class BroadcastDefinition final : public OpDefinition {
 public:
  explicit BroadcastDefinition(BroadcastFunction function) : function_(function) {}
  std::string_view type() const override { return function_ == BroadcastFunction::add ? "add" : "multiply"; }
  BackwardNeeds backward_needs() const override { return {.inputs = function_ == BroadcastFunction::multiply}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<BroadcastCpu>(function_, tensors); },
        [&] { return make_broadcast_cuda(function_, tensors); });
  }

 private:
  BroadcastFunction function_;
};

Value add_op_of(Graph& graph, const std::string& name, Value a, Value b, BroadcastFunction function,
                const OpType& type) {
  Shape shape = broadcast_shape(graph.shape(a), graph.shape(b));
  broadcast_axes(graph.shape(a), graph.shape(b));  // throws if there are too many axes
  return graph.add_op({.name = name,
                       .definition = std::make_shared<BroadcastDefinition>(function),
                       .inputs = {a, b},
                       .traits = {.samples_are_independent = true},
                       .type = &type},
                      std::move(shape));
}

}  // namespace

const OpType multiply_op = op_type<multiply>("multiply");

Value multiply(Graph& graph, const std::string& name, Value a, Value b) {
  return add_op_of(graph, name, a, b, BroadcastFunction::multiply, multiply_op);
}

Value add_broadcast(Graph& graph, const std::string& name, Value a, Value b, const OpType& type) {
  return add_op_of(graph, name, a, b, BroadcastFunction::add, type);
}

}  // namespace carillon
