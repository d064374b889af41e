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

 private:
  AttentionParams params_;
};

const OpTraits attention_traits{.samples_are_independent = true};

}  // namespace

const OpType attention_op = op_type<AttentionParams, attention>("attention");

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
                       .traits = attention_traits,
                       .type = &attention_op,
                       .attributes = attributes_of(params)},
                      {shape[0], shape[1], width});
}

}  // namespace carillon
