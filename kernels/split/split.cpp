#include "kernels/split/split.h"

#include <algorithm>
#include <numeric>

#include "carillon/core/error.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/row_parts.h"

namespace carillon {
namespace {

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
        context, [&] { return std::make_unique<SplitOp>(params_, part_copies_cpu, tensors); },
        [&] {
          return std::make_unique<SplitOp>(params_, PartCopies{read_parts_cuda, write_parts_cuda}, tensors);
        });
  }

 private:
  SplitParams params_;
};

}  // namespace

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
