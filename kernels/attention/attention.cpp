#include "kernels/attention/attention.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class AttentionDefinition final : public OpDefinition {
 public:
  explicit AttentionDefinition(const AttentionParams& params) : params_(params) {}
  std::string_view type() const override { return "attention"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = true}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_attention_cpu(params_, context, tensors); },
        [&] { return make_attention_cuda(params_, context, tensors); });
  }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    using Extents = std::vector<std::int64_t>;
    const AttentionShape shape(operands.output, params_);
    // In the shapes of Reshape, 0 keeps an extent of the input.
    const std::string heads = operators.add(
        "Reshape", {operands.inputs.at(0), operators.constant(Extents{0, 0, 3 * shape.heads, shape.head_size()})});
    const auto part = [&](const std::string& of, int number) {
      const std::int64_t first = number * shape.heads;
      return operators.add("Slice", {of, operators.constant(Extents{first}),
                                     operators.constant(Extents{first + shape.heads}), operators.constant(Extents{1})});
    };
    const std::string rows = operators.add("Transpose", {heads}, {{"perm", Extents{0, 2, 1, 3}}});
    const std::string columns = operators.add("Transpose", {heads}, {{"perm", Extents{0, 2, 3, 1}}});
    const std::string products = operators.add("MatMul", {part(rows, 0), part(columns, 1)});
    const std::string scores = operators.add("Mul", {products, operators.constant(Extents{1}, {shape.scale()})});
    const std::string y = operators.add("MatMul", {operators.add("Softmax", {scores}), part(rows, 2)});
    return operators.add("Reshape", {operators.add("Transpose", {y}, {{"perm", Extents{0, 2, 1, 3}}}),
                                     operators.constant(Extents{0, 0, shape.width})});
  }

 private:
  AttentionParams params_;
};

const OpTraits attention_traits{.samples_are_independent = true, .to_onnx = trait<&AttentionDefinition::to_onnx>};

}  // namespace

Value attention(Graph& graph, const std::string& name, Value qkv, const AttentionParams& params) {
  const Shape shape = graph.shape(qkv);
  if (shape.rank() != 3 || shape[2] % 3 != 0) {
    fail(ExitCode::failed, "attention {}: input {} is not [batch, tokens, 3 * width]", name, shape.text());
  }
  const std::int64_t width = shape[2] / 3;
  if (params.heads <= 0 || width % params.heads != 0) {
    fail(ExitCode::failed, "attention {}: {} heads do not divide the width {}", name, params.heads, width);
  }
  return graph.add_op({.name = name,
                       .definition = std::make_shared<AttentionDefinition>(params),
                       .inputs = {qkv},
                       .traits = attention_traits},
                      {shape[0], shape[1], width});
}

}  // namespace carillon
