#include "kernels/tokens/tokens.h"

#include <algorithm>
#include <numeric>

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

using Extents = std::vector<std::int64_t>;

class EmbedTokensDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "embed_tokens"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_embed_tokens_cpu(tensors); }, [&] { return make_embed_tokens_cuda(tensors); });
  }
};

class FirstTokenDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "first_token"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_first_token_cpu(tensors); }, [&] { return make_first_token_cuda(tensors); });
  }
};

const OpTraits embed_tokens_traits{.samples_are_independent = true};
const OpTraits first_token_traits{.samples_are_independent = true};

}  // namespace

const OpType embed_tokens_op = op_type<EmbedTokensParams, embed_tokens>("embed_tokens");
const OpType first_token_op = op_type<first_token>("first_token");

Value embed_tokens(Graph& graph, const std::string& name, Value x, const EmbedTokensParams& params) {
  const Shape& shape = graph.shape(x);
  if (shape.rank() != 4) fail(ExitCode::failed, "embed_tokens {}: input {} has no images", name, shape.text());
  const std::int64_t tokens = 1 + shape[1] * shape[2], channels = shape[3];
  const Shape output{shape[0], tokens, channels};
  const std::vector<int> parameters{graph.add_parameter({.name = name + "/class",
                                                         .shape = {1, 1, channels},
                                                         .initializer = params.class_token,
                                                         .is_embedding = true}),
                                    graph.add_parameter({.name = name + "/positions",
                                                         .shape = {1, tokens, channels},
                                                         .initializer = params.positions,
                                                         .is_embedding = true})};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<EmbedTokensDefinition>(),
                       .inputs = {x},
                       .parameters = parameters,
                       .traits = embed_tokens_traits,
                       .type = &embed_tokens_op,
                       .attributes = attributes_of(params)},
                      output);
}

Value first_token(Graph& graph, const std::string& name, Value x) {
  const Shape& shape = graph.shape(x);
  if (shape.rank() != 3) fail(ExitCode::failed, "first_token {}: input {} has no tokens", name, shape.text());
  const Shape output{shape[0], shape[2]};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<FirstTokenDefinition>(),
                       .inputs = {x},
                       .traits = first_token_traits,
                       .type = &first_token_op},
                      output);
}

}  // namespace carillon
