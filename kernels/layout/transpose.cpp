// The definitions of reshape and transpose, and transpose on a CPU, which loops over the rows of y. A row consists of
// the elements along the last of the TransposeAxes.
#include "kernels/layout/layout.h"

#include <algorithm>
#include <cstring>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/layout/layout_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"

namespace carillon {
namespace {

class NoWork final : public Op {
 public:
  void forward(Stream& /*stream*/) override {}
  void backward(Stream& /*stream*/) override {}
};

class ReshapeDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "reshape"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& /*context*/, const OpTensors& /*tensors*/) const override {
    return std::make_unique<NoWork>();
  }
};

/// Returns the shape of the result. Errors: the errors of reshape.
Shape reshaped(const std::string& name, const Shape& x, const ReshapeParams& params) {
  std::vector<std::int64_t> extents{x[0]};
  std::int64_t known = 1;
  std::size_t open = 0;  // the axis with the computed extent; 0: there is none
  const auto refuse = [&] {
    fail(ExitCode::failed, "reshape {}: the extents {} do not fit the shape {}", name, Shape(params.extents).text(),
         x.text());
  };
  for (const std::int64_t extent : params.extents) {
    const bool is_open = extent == -1;
    if ((is_open && open > 0) || (!is_open && extent <= 0)) refuse();
    if (is_open) open = extents.size();
    if (!is_open && __builtin_mul_overflow(known, extent, &known)) refuse();
    extents.push_back(extent);
  }
  const std::int64_t count = x.elements_per_sample();
  if (open > 0) extents[open] = count / known;
  if (open > 0 ? count % known != 0 : count != known) refuse();
  return Shape(std::move(extents));
}

using AxisList = std::vector<std::int64_t>;

template <typename T>
void read_row(const T* x, const TransposeAxis& axis, T* y) {
  if (axis.stride == 1) {
    std::memcpy(static_cast<void*>(y), x, static_cast<std::size_t>(axis.extent) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < axis.extent; ++i) y[i] = x[i * axis.stride];
  }
}

void transpose_cpu(std::span<const std::int64_t> axes, const Tensor& x, const Tensor& y, Stream& /*stream*/) {
  const TransposeAxes places = transpose_axes(x.shape, axes);
  const TransposeAxis last = places.at[places.count - 1];
  const std::int64_t rows = x.shape.elements_per_sample() / last.extent;
  parallel_items(
      static_cast<std::size_t>(x.shape[0] * rows), static_cast<std::size_t>(last.extent), elementwise_grain,
      [&](std::size_t first, std::size_t end) {
        for (auto i = static_cast<std::int64_t>(first); i < static_cast<std::int64_t>(end); ++i) {
          const std::int64_t sample = i / rows, place = (i - sample * rows) * last.extent;
          const ElementPointer from = sample_of(x, sample) + static_cast<std::size_t>(original_place(places, place));
          const ElementPointer to = sample_of(y, sample) + static_cast<std::size_t>(place);
          with_float_type(y.type,
                          [&]<typename T>(std::type_identity<T>) { read_row(from.as<const T>(), last, to.as<T>()); });
        }
      });
}

class TransposeOp final : public Op {
 public:
  using Copy = void (*)(std::span<const std::int64_t> axes, const Tensor& x, const Tensor& y, Stream& stream);
  TransposeOp(const AxisList& axes, Copy copy, const OpTensors& tensors)
      : axes_(axes), inverse_(axes.size()), copy_(copy), tensors_(tensors) {
    for (std::size_t k = 0; k < axes.size(); ++k) {
      inverse_[static_cast<std::size_t>(axes[k])] = static_cast<std::int64_t>(k);
    }
  }

  void forward(Stream& stream) override { copy_(axes_, tensors_.inputs[0], tensors_.outputs[0], stream); }
  void backward(Stream& stream) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (dx) copy_(inverse_, tensors_.output_gradients[0], dx, stream);
  }

 private:
  AxisList axes_, inverse_;
  Copy copy_;
  OpTensors tensors_;
};

class TransposeDefinition final : public OpDefinition {
 public:
  explicit TransposeDefinition(AxisList axes) : axes_(std::move(axes)) {}
  std::string_view type() const override { return "transpose"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<TransposeOp>(axes_, transpose_cpu, tensors); },
        [&] { return std::make_unique<TransposeOp>(axes_, transpose_cuda, tensors); });
  }

 private:
  AxisList axes_;
};

/// Errors: failed (the axes are not a permutation that starts with 0).
void check_axes(const std::string& name, const Shape& x, const AxisList& axes) {
  bool is_permutation = axes.size() == x.rank() && axes.front() == 0;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(x.rank()); ++axis) {
    is_permutation = is_permutation && std::ranges::count(axes, axis) == 1;
  }
  if (is_permutation) return;
  fail(ExitCode::failed, "transpose {}: the axes {} are no permutation of the axes of {} that starts with 0", name,
       Shape(axes).text(), x.text());
}

}  // namespace

const OpType reshape_op = op_type<ReshapeParams, reshape>("reshape");

Value reshape(Graph& graph, const std::string& name, Value x, const ReshapeParams& params) {
  Shape shape = reshaped(name, graph.shape(x), params);
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ReshapeDefinition>(),
                       .inputs = {x},
                       .type = &reshape_op,
                       .attributes = attributes_of(params)},
                      std::move(shape));
}

const OpType transpose_op = op_type<TransposeParams, transpose>("transpose");

TransposeAxes transpose_axes(const Shape& x, std::span<const std::int64_t> axes) {
  std::vector<std::int64_t> strides(x.rank(), 1);
  for (std::size_t axis = x.rank() - 1; axis-- > 0;) strides[axis] = strides[axis + 1] * x[axis + 1];
  std::vector<TransposeAxis> found;
  for (const std::int64_t original : axes.subspan(1)) {
    const auto axis = static_cast<std::size_t>(original);
    if (x[axis] == 1) continue;
    if (!found.empty() && found.back().stride == strides[axis] * x[axis]) {
      found.back() = {found.back().extent * x[axis], strides[axis]};
    } else {
      found.push_back({x[axis], strides[axis]});
    }
  }
  if (found.empty()) found.push_back({});
  if (found.size() > TransposeAxes::max_count) {
    fail(ExitCode::failed, "tensors with more than {} groups of axes cannot be transposed", TransposeAxes::max_count);
  }
  TransposeAxes places{.at = {}, .count = static_cast<int>(found.size())};
  std::ranges::copy(found, places.at);
  return places;
}

Value transpose(Graph& graph, const std::string& name, Value x, const TransposeParams& params) {
  const Shape shape = graph.shape(x);
  check_axes(name, shape, params.axes);
  transpose_axes(shape, params.axes);  // throws an error if there are too many axes
  std::vector<std::int64_t> extents;
  for (const std::int64_t axis : params.axes) extents.push_back(shape[static_cast<std::size_t>(axis)]);
  return graph.add_op({.name = name,
                       .definition = std::make_shared<TransposeDefinition>(params.axes),
                       .inputs = {x},
                       .traits = {.samples_are_independent = true},
                       .type = &transpose_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

}  // namespace carillon
