// The definition of softmax, and the op on a CPU, which loops over the rows.
#include "kernels/softmax/softmax.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"
#include "kernels/softmax/softmax_kernels.h"

namespace carillon {
namespace {

constexpr std::int64_t lanes = softmax_lanes;

[[gnu::always_inline]] inline float sum_of(const float (&sums)[lanes]) {
  float sum = 0.0f;
  for (const float value : sums) sum += value;
  return sum;
}

/// Calls body(element, lane) for the elements of a row.
template <typename Body>
[[gnu::always_inline]] inline void for_elements(std::int64_t columns, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes <= columns; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) body(i + lane, lane);
  }
  for (std::int64_t lane = 0; i + lane < columns; ++lane) body(i + lane, lane);
}

template <typename T>
[[gnu::always_inline]] inline void forward_row(const T* x, std::int64_t columns, T* y) {
  float largest[lanes], sums[lanes] = {};
  std::fill_n(largest, lanes, to_float(x[0]));
  for_elements(
      columns, [&](std::int64_t i, std::int64_t lane) __attribute__((always_inline)) {
        const float value = to_float(x[i]);
        largest[lane] = value > largest[lane] ? value : largest[lane];
      });
  const float top = *std::ranges::max_element(largest);
  for_elements(
      columns, [&](std::int64_t i, std::int64_t lane)
                   __attribute__((always_inline)) { sums[lane] += softmax_term(to_float(x[i]), top); });
  const float factor = 1.0f / sum_of(sums);
  for (std::int64_t i = 0; i < columns; ++i) y[i] = stored_as<T>(softmax_term(to_float(x[i]), top) * factor);
}

template <typename T>
[[gnu::always_inline]] inline void backward_row(const T* y, const T* dy, std::int64_t columns, T* dx) {
  float sums[lanes] = {};
  for_elements(
      columns, [&](std::int64_t i, std::int64_t lane)
                   __attribute__((always_inline)) { sums[lane] += to_float(dy[i]) * to_float(y[i]); });
  const float sum = sum_of(sums);
  for (std::int64_t i = 0; i < columns; ++i) dx[i] = stored_as<T>(to_float(y[i]) * (to_float(dy[i]) - sum));
}

CARILLON_SIMD void forward_rows(ElementPointer x, std::int64_t rows, std::int64_t columns, ElementPointer y) {
  with_float_type(
      y.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        for (std::int64_t row = 0; row < rows; ++row) {
          forward_row(x.as<const T>() + row * columns, columns, y.as<T>() + row * columns);
        }
      });
}

CARILLON_SIMD void backward_rows(ElementPointer y, ElementPointer dy, std::int64_t rows, std::int64_t columns,
                                 ElementPointer dx) {
  with_float_type(
      y.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t at = row * columns;
          backward_row(y.as<const T>() + at, dy.as<const T>() + at, columns, dx.as<T>() + at);
        }
      });
}

class SoftmaxCpu final : public Op {
 public:
  explicit SoftmaxCpu(const OpTensors& tensors)
      : tensors_(tensors), columns_(tensors.outputs.at(0).shape.extents().back()) {}

  void forward(Stream& /*stream*/) override {
    const ElementPointer x = tensors_.inputs[0], y = tensors_.outputs[0];
    for_rows([&](std::size_t first, std::int64_t count) { forward_rows(x + first, count, columns_, y + first); });
  }
  void backward(Stream& /*stream*/) override {
    const ElementPointer y = tensors_.outputs[0], dy = tensors_.output_gradients.at(0),
                         dx = tensors_.input_gradients.at(0);
    if (!dx) return;
    for_rows([&](std::size_t first, std::int64_t count) {
      backward_rows(y + first, dy + first, count, columns_, dx + first);
    });
  }

 private:
  /// Calls body(first element, number of rows).
  template <typename Body>
  void for_rows(const Body& body) const {
    const auto columns = static_cast<std::size_t>(columns_);
    const auto count = static_cast<std::size_t>(tensors_.outputs[0].shape.element_count());
    parallel_items(count / columns, columns, elementwise_grain / 4, [&](std::size_t first, std::size_t last) {
      body(first * columns, static_cast<std::int64_t>(last - first));
    });
  }

  OpTensors tensors_;
  std::int64_t columns_;
};

class SoftmaxDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "softmax"; }
  BackwardNeeds backward_needs() const override { return {.inputs = false, .outputs = true}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<SoftmaxCpu>(tensors); }, [&] { return make_softmax_cuda(tensors); });
  }
};

}  // namespace

const OpType softmax_op = op_type<softmax>("softmax");

Value softmax(Graph& graph, const std::string& name, Value x) {
  const Shape shape = graph.shape(x);
  if (shape.rank() < 2) fail(ExitCode::failed, "softmax {}: a tensor {} has one axis only", name, shape.text());
  return graph.add_op({.name = name,
                       .definition = std::make_shared<SoftmaxDefinition>(),
                       .inputs = {x},
                       .traits = {.samples_are_independent = true},
                       .type = &softmax_op},
                      shape);
}

}  // namespace carillon
