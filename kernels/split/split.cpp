// The definition of split, and the op on a CPU.
#include "kernels/split/split.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class SplitCpu final : public Op {
 public:
  SplitCpu(const SplitParams& params, const OpTensors& tensors)
      : tensors_(tensors), rows_(split_rows(params, tensors.inputs.at(0).shape)) {}

  void forward(Stream& /*stream*/) override {
    for_rows([&](std::int64_t row) {
      for (std::size_t k = 0; k < rows_.parts.size(); ++k) {
        std::memcpy(part_of(tensors_.outputs[k], row, k), in_row(tensors_.inputs[0], row, k), bytes(k));
      }
    });
  }

  void backward(Stream& /*stream*/) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (!dx) return;
    for_rows([&](std::int64_t row) {
      for (std::size_t k = 0; k < rows_.parts.size(); ++k) {
        const Tensor& dy = tensors_.output_gradients[k];
        if (dy) {
          std::memcpy(in_row(dx, row, k), part_of(dy, row, k), bytes(k));
        } else {
          std::memset(in_row(dx, row, k), 0, bytes(k));
        }
      }
    });
  }

 private:
  template <typename Body>
  void for_rows(const Body& body) const {
    parallel_items(static_cast<std::size_t>(rows_.rows), static_cast<std::size_t>(rows_.row_size), elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t row = first; row < last; ++row) body(static_cast<std::int64_t>(row));
                   });
  }
  std::size_t bytes(std::size_t k) const {
    return static_cast<std::size_t>(rows_.parts[k].size) * size_of(tensors_.inputs[0].type);
  }
  /// Part k of a row of x or dx.
  std::byte* in_row(const Tensor& x, std::int64_t row, std::size_t k) const {
    const std::int64_t element = row * rows_.row_size + rows_.parts[k].offset;
    return static_cast<std::byte*>(x.data) + static_cast<std::size_t>(element) * size_of(x.type);
  }
  /// A row of y_k or dy_k.
  std::byte* part_of(const Tensor& y, std::int64_t row, std::size_t k) const {
    return static_cast<std::byte*>(y.data) + static_cast<std::size_t>(row * rows_.parts[k].size) * size_of(y.type);
  }

  OpTensors tensors_;
  SplitRows rows_;
};

class SplitDefinition final : public OpDefinition {
 public:
  explicit SplitDefinition(SplitParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "split"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<SplitCpu>(params_, tensors); },
        [&] { return make_split_cuda(params_, tensors); });
  }

 private:
  SplitParams params_;
};

}  // namespace

const OpType split_op = op_type<SplitParams, split>("split");

std::size_t split_axis(const SplitParams& params, const Shape& x) {
  const std::int64_t rank = static_cast<std::int64_t>(x.rank()), axis = params.axis == -1 ? rank - 1 : params.axis;
  if (axis < 1 || axis >= rank) fail(ExitCode::failed, "a tensor {} has no axis {} to split", x.text(), params.axis);
  return static_cast<std::size_t>(axis);
}

SplitRows split_rows(const SplitParams& params, const Shape& x) {
  const auto axis = static_cast<std::ptrdiff_t>(split_axis(params, x));
  const std::vector<std::int64_t>& extents = x.extents();
  const auto product = [](auto first, auto last) {
    return std::accumulate(first, last, std::int64_t{1}, std::multiplies<>());
  };
  const std::int64_t inner = product(extents.begin() + axis + 1, extents.end());
  SplitRows rows{.rows = product(extents.begin(), extents.begin() + axis),
                 .row_size = inner * x[static_cast<std::size_t>(axis)],
                 .parts = {}};
  std::int64_t offset = 0;
  for (const std::int64_t size : params.sizes) {
    rows.parts.push_back({.offset = offset, .size = size * inner});
    offset += size * inner;
  }
  return rows;
}

std::vector<Value> split(Graph& graph, const std::string& name, Value x, const SplitParams& params) {
  const Shape shape = graph.shape(x);
  const std::size_t axis = split_axis(params, shape);
  const auto is_positive = [](std::int64_t size) { return size > 0 && size <= max_attribute; };
  if (params.sizes.empty() || !std::ranges::all_of(params.sizes, is_positive) ||
      std::accumulate(params.sizes.begin(), params.sizes.end(), std::int64_t{0}) != shape[axis]) {
    fail(ExitCode::failed, "split {}: the sizes of the parts do not sum to {}, the extent of axis {}", name,
         shape[axis], axis);
  }
  std::vector<Shape> parts;
  for (const std::int64_t size : params.sizes) {
    std::vector<std::int64_t> extents = shape.extents();
    extents[axis] = size;
    parts.emplace_back(std::move(extents));
  }
  return graph.add_op_with_outputs({.name = name,
                                    .definition = std::make_shared<SplitDefinition>(params),
                                    .inputs = {x},
                                    .traits = {.samples_are_independent = true},
                                    .type = &split_op,
                                    .attributes = attributes_of(params)},
                                   std::move(parts));
}

}  // namespace carillon
