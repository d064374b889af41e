#include "kernels/concat/concat.h"

#include "carillon/core/error.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/row_parts.h"

namespace carillon {
namespace {

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
        context, [&] { return std::make_unique<ConcatOp>(params_, part_copies_cpu, tensors); },
        [&] {
          return std::make_unique<ConcatOp>(params_, PartCopies{read_parts_cuda, write_parts_cuda}, tensors);
        });
  }

 private:
  ConcatParams params_;
};

/// The shape of the result. Errors: as concat.
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

}  // namespace

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

}  // namespace carillon
