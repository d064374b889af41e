// The definitions of pad and slice, and the ops on a CPU, which loop over the rows of y. A row consists of the elements
// along the last of the PadAxes.
#include "kernels/layout/layout.h"

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/layout/layout_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"

namespace carillon {
namespace {

/// Writes a row of y. `x`: the row of x, or null if x has no element of the row.
template <typename T>
void write_row(const PadAxis& axis, T value, const T* x, T* y) {
  if (x == nullptr) {
    std::fill_n(y, axis.y_extent, value);
  } else if (axis.step == 1 && axis.divisor == 1) {
    const std::int64_t begin = std::clamp(-axis.offset, std::int64_t{0}, axis.y_extent);
    const std::int64_t end = std::clamp(axis.x_extent - axis.offset, begin, axis.y_extent);
    std::fill_n(y, begin, value);
    std::copy_n(x + begin + axis.offset, end - begin, y + begin);
    std::fill_n(y + end, axis.y_extent - end, value);
  } else {
    for (std::int64_t i = 0; i < axis.y_extent; ++i) {
      const std::int64_t index = axis.source(i);
      y[i] = index < 0 ? value : x[index];
    }
  }
}

void pad_cpu(const PadAxes& axes, float value, const Tensor& x, const Tensor& y, Stream& /*stream*/) {
  const PadAxis last = axes.at[axes.count - 1];
  const std::int64_t rows = y.shape.elements_per_sample() / last.y_extent;
  const auto write = [&](std::int64_t i) {
    const std::int64_t sample = i / rows, row = i - sample * rows;
    const std::int64_t place = source_place(axes, axes.count - 1, row);
    with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
      const T* const from = sample_of(x, sample).as<const T>();
      T* const to = sample_of(y, sample).as<T>() + row * last.y_extent;
      write_row(last, stored_as<T>(value), place < 0 ? nullptr : from + place * last.x_extent, to);
    });
  };
  parallel_items(static_cast<std::size_t>(y.shape[0] * rows), static_cast<std::size_t>(last.y_extent),
                 elementwise_grain, [&](std::size_t first, std::size_t end) {
                   for (std::size_t i = first; i < end; ++i) write(static_cast<std::int64_t>(i));
                 });
}

class PadOp final : public Op {
 public:
  using Write = void (*)(const PadAxes& axes, float value, const Tensor& x, const Tensor& y, Stream& stream);
  PadOp(const PadAxes& axes, float value, Write write, const OpTensors& tensors)
      : axes_(axes), gradient_axes_(gradient_axes(axes)), value_(value), write_(write), tensors_(tensors) {}

  void forward(Stream& stream) override { write_(axes_, value_, tensors_.inputs[0], tensors_.outputs[0], stream); }
  void backward(Stream& stream) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (dx) write_(gradient_axes_, 0.0f, tensors_.output_gradients[0], dx, stream);
  }

 private:
  PadAxes axes_, gradient_axes_;
  float value_;
  Write write_;
  OpTensors tensors_;
};

class PadDefinition final : public OpDefinition {
 public:
  PadDefinition(std::string_view type, const PadAxes& axes, float value) : type_(type), axes_(axes), value_(value) {}
  std::string_view type() const override { return type_; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<PadOp>(axes_, value_, pad_cpu, tensors); },
        [&] { return std::make_unique<PadOp>(axes_, value_, pad_cuda, tensors); });
  }

 private:
  std::string_view type_;
  PadAxes axes_;
  float value_;
};

/// `sample`: the axes of a sample.
Value add_pad(Graph& graph, const std::string& name, Value x, const std::vector<PadAxis>& sample, float value,
              const OpType& type, const Attributes& attributes) {
  std::vector<std::int64_t> extents{graph.shape(x)[0]};
  for (const PadAxis& axis : sample) extents.push_back(axis.y_extent);
  return graph.add_op({.name = name,
                       .definition = std::make_shared<PadDefinition>(type.name, pad_axes(sample), value),
                       .inputs = {x},
                       .traits = {.samples_are_independent = true},
                       .type = &type,
                       .attributes = attributes},
                      Shape(std::move(extents)));
}

}  // namespace

PadAxes pad_axes(const std::vector<PadAxis>& sample) {
  std::vector<PadAxis> found;
  for (const PadAxis& axis : sample) {
    if (!found.empty() && axis.copies_all() && found.back().step == 1 && found.back().divisor == 1) {
      PadAxis& outer = found.back();
      for (std::int64_t* const number : {&outer.x_extent, &outer.y_extent, &outer.offset}) {
        if (__builtin_mul_overflow(*number, axis.x_extent, number)) fail(ExitCode::failed, "the padding is too large");
      }
    } else {
      found.push_back(axis);
    }
  }
  if (found.empty()) found.push_back({});
  if (found.size() > PadAxes::max_count) {
    fail(ExitCode::failed, "tensors with more than {} groups of axes cannot be padded", PadAxes::max_count);
  }
  PadAxes axes{.at = {}, .count = static_cast<int>(found.size())};
  std::ranges::copy(found, axes.at);
  return axes;
}

PadAxes gradient_axes(PadAxes axes) {
  for (int k = 0; k < axes.count; ++k) {
    const PadAxis axis = axes.at[k];
    const std::int64_t sign = axis.step < 0 ? -1 : 1;
    axes.at[k] = {.x_extent = axis.y_extent,
                  .y_extent = axis.x_extent,
                  .step = sign * axis.divisor,
                  .offset = -sign * axis.offset,
                  .divisor = sign * axis.step};
  }
  return axes;
}

const OpType pad_op = op_type<PadParams, pad>("pad");
const OpType slice_op = op_type<SliceParams, slice>("slice");

Value pad(Graph& graph, const std::string& name, Value x, const PadParams& params) {
  const Shape shape = graph.shape(x);
  const std::size_t axes = shape.rank() - 1;
  if (params.before.size() != axes || params.after.size() != axes) {
    fail(ExitCode::failed, "pad {}: a tensor {} requires {} numbers before and after", name, shape.text(), axes);
  }
  std::vector<PadAxis> sample;
  for (std::size_t k = 0; k < axes; ++k) {
    const std::int64_t extent = shape[k + 1], padded = params.before[k] + extent + params.after[k];
    if (padded <= 0) fail(ExitCode::failed, "pad {}: axis {} of {} would be empty", name, k + 1, shape.text());
    sample.push_back({.x_extent = extent, .y_extent = padded, .offset = -params.before[k]});
  }
  return add_pad(graph, name, x, sample, params.value, pad_op, attributes_of(params));
}

std::size_t slice_axis(const SliceParams& params, const Shape& x) { return axis_to_part(params.axis, x, "slice"); }

Value slice(Graph& graph, const std::string& name, Value x, const SliceParams& params) {
  const Shape shape = graph.shape(x);
  const std::size_t axis = slice_axis(params, shape);
  const std::int64_t extent = shape[axis], first = params.first;
  const bool has_elements = params.count > 0 && params.count <= extent && params.step != 0;
  const std::int64_t last = has_elements ? first + (params.count - 1) * params.step : -1;
  if (std::min(first, last) < 0 || std::max(first, last) >= extent) {
    fail(ExitCode::failed, "slice {}: axis {} of {} does not have the elements {}, {} + {}, ... ({} elements)", name,
         axis, shape.text(), first, first, params.step, params.count);
  }
  std::vector<PadAxis> sample;
  for (std::size_t k = 1; k < shape.rank(); ++k) sample.push_back({.x_extent = shape[k], .y_extent = shape[k]});
  sample[axis - 1] = {.x_extent = extent, .y_extent = params.count, .step = params.step, .offset = first};
  return add_pad(graph, name, x, sample, 0.0f, slice_op, attributes_of(params));
}

}  // namespace carillon
