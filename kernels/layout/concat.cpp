// The definitions of concat and split, and their copies on a CPU.
#include "kernels/layout/layout.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/layout/layout_kernels.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

/// `sizes`: extents of the parts along the axis.
RowParts row_parts(const Shape& whole, std::size_t axis, std::span<const std::int64_t> sizes) {
  const std::vector<std::int64_t>& extents = whole.extents();
  const auto at = extents.begin() + static_cast<std::ptrdiff_t>(axis);
  const auto product = [](auto first, auto last) {
    return std::accumulate(first, last, std::int64_t{1}, std::multiplies<>());
  };
  const std::int64_t inner = product(at + 1, extents.end());
  RowParts rows{.rows = product(extents.begin(), at), .row_size = inner * *at, .parts = {}};
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    rows.parts.push_back({.offset = offset, .size = size * inner});
    offset += size * inner;
  }
  return rows;
}

std::byte* element(const Tensor& tensor, std::int64_t i) {
  return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(i) * size_of(tensor.type);
}

/// Calls body(address of part k in a row of the whole, address of this row in part k, number of bytes) for each row and
/// each part.
template <typename Body>
void for_parts(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, const Body& body) {
  parallel_items(static_cast<std::size_t>(rows.rows), static_cast<std::size_t>(rows.row_size), elementwise_grain,
                 [&](std::size_t first, std::size_t last) {
                   for (auto row = static_cast<std::int64_t>(first); row < static_cast<std::int64_t>(last); ++row) {
                     for (std::size_t k = 0; k < rows.parts.size(); ++k) {
                       const RowParts::Part& part = rows.parts[k];
                       std::byte* const own = parts[k] ? element(parts[k], row * part.size) : nullptr;
                       body(element(whole, row * rows.row_size + part.offset), own,
                            static_cast<std::size_t>(part.size) * size_of(whole.type));
                     }
                   }
                 });
}

void read_parts_cpu(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& /*stream*/) {
  for_parts(rows, whole, parts, [](const std::byte* in_whole, std::byte* part, std::size_t bytes) {
    if (part != nullptr) std::memcpy(part, in_whole, bytes);
  });
}

void write_parts_cpu(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& /*stream*/) {
  for_parts(rows, whole, parts, [](std::byte* in_whole, const std::byte* part, std::size_t bytes) {
    if (part != nullptr) {
      std::memcpy(in_whole, part, bytes);
    } else {
      std::memset(in_whole, 0, bytes);
    }
  });
}

/// The functions of one device that copy parts of a tensor. `read` copies from the whole to the parts, and `write`
/// copies from the parts to the whole. `read` skips parts without data. If a part has no data, `write` writes 0.
struct PartCopies {
  using Copy = void (*)(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);
  Copy read, write;
};

class ConcatOp final : public Op {
 public:
  ConcatOp(const ConcatParams& params, const PartCopies& copies, const OpTensors& tensors)
      : copies_(copies), tensors_(tensors) {
    const Shape& y = tensors.outputs.at(0).shape;
    const std::size_t axis = axis_to_part(params.axis, y, "join");
    std::vector<std::int64_t> sizes;
    for (const Tensor& x : tensors.inputs) sizes.push_back(x.shape[axis]);
    rows_ = row_parts(y, axis, sizes);
  }

  void forward(Stream& stream) override { copies_.write(rows_, tensors_.outputs[0], tensors_.inputs, stream); }
  void backward(Stream& stream) override {
    copies_.read(rows_, tensors_.output_gradients.at(0), tensors_.input_gradients, stream);
  }

 private:
  PartCopies copies_;
  OpTensors tensors_;
  RowParts rows_;
};

class ConcatDefinition final : public OpDefinition {
 public:
  explicit ConcatDefinition(const ConcatParams& params) : params_(params) {}
  std::string_view type() const override { return "concat"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] {
          return std::make_unique<ConcatOp>(params_, PartCopies{read_parts_cpu, write_parts_cpu}, tensors);
        },
        [&] {
          return std::make_unique<ConcatOp>(params_, PartCopies{read_parts_cuda, write_parts_cuda}, tensors);
        });
  }

 private:
  ConcatParams params_;
};

/// Returns the shape of the result. Errors: the errors of concat.
Shape joined_shape(const Graph& graph, const std::string& name, std::span<const Value> inputs,
                   const ConcatParams& params) {
  if (inputs.empty()) fail(ExitCode::failed, "concat {}: there are no inputs", name);
  const Shape first = graph.shape(inputs.front());
  const std::size_t axis = axis_to_part(params.axis, first, "join");
  std::vector<std::int64_t> joined = first.extents();
  for (const Value input : inputs.subspan(1)) {
    std::vector<std::int64_t> extents = graph.shape(input).extents();
    if (extents.size() == joined.size()) {
      joined[axis] += extents[axis];
      extents[axis] = joined[axis];
    }
    if (extents != joined) {
      fail(ExitCode::failed, "concat {}: the shapes {} and {} cannot be joined along axis {}", name, first.text(),
           graph.shape(input).text(), axis);
    }
  }
  return Shape(std::move(joined));
}

class SplitOp final : public Op {
 public:
  SplitOp(const SplitParams& params, const PartCopies& copies, const OpTensors& tensors)
      : copies_(copies), tensors_(tensors) {
    const Shape& x = tensors.inputs.at(0).shape;
    rows_ = row_parts(x, split_axis(params, x), params.sizes);
  }

  void forward(Stream& stream) override { copies_.read(rows_, tensors_.inputs[0], tensors_.outputs, stream); }
  void backward(Stream& stream) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (dx) copies_.write(rows_, dx, tensors_.output_gradients, stream);
  }

 private:
  PartCopies copies_;
  OpTensors tensors_;
  RowParts rows_;
};

class SplitDefinition final : public OpDefinition {
 public:
  explicit SplitDefinition(SplitParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "split"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] {
          return std::make_unique<SplitOp>(params_, PartCopies{read_parts_cpu, write_parts_cpu}, tensors);
        },
        [&] {
          return std::make_unique<SplitOp>(params_, PartCopies{read_parts_cuda, write_parts_cuda}, tensors);
        });
  }

 private:
  SplitParams params_;
};

}  // namespace

std::size_t axis_to_part(std::int64_t axis, const Shape& shape, std::string_view verb) {
  const auto rank = static_cast<std::int64_t>(shape.rank());
  const std::int64_t found = axis == -1 ? rank - 1 : axis;
  if (found < 1 || found >= rank) fail(ExitCode::failed, "a tensor {} has no axis {} to {}", shape.text(), axis, verb);
  return static_cast<std::size_t>(found);
}

const OpType concat_op{
    .name = "concat",
    .input_count = OpType::any_inputs,
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(concat(graph, name, inputs, params_of<ConcatParams>(attributes)));
    }};

Value concat(Graph& graph, const std::string& name, std::span<const Value> inputs, const ConcatParams& params) {
  Shape shape = joined_shape(graph, name, inputs, params);
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ConcatDefinition>(params),
                       .inputs = {inputs.begin(), inputs.end()},
                       .traits = {.samples_are_independent = true},
                       .type = &concat_op,
                       .attributes = attributes_of(params)},
                      std::move(shape));
}

const OpType split_op = op_type<SplitParams, split>("split");

std::size_t split_axis(const SplitParams& params, const Shape& x) { return axis_to_part(params.axis, x, "split"); }

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
