// embed_tokens: makes the tokens of a transformer from the patches of an image.
// first_token: copies the class token of each sample. The class token is a learned vector before the patches. The
// network classifies by the final value of this token.
//
//   embed_tokens   y[b, 0] = class + positions[0]                     x: [batch, height, width, channels]
//                  y[b, 1 + i] = x[b, i] + positions[1 + i]           y: [batch, 1 + height width, channels]
//                  dx[b, i] = dy[b, 1 + i]                            i: row by row
//                  dpositions[i] = sum over b of dy[b, i], dclass = dpositions[0]
//   first_token    y[b] = x[b, 0]                                     x: [batch, tokens, channels]
//                  dx[b, 0] = dy[b], all other dx are 0               y: [batch, channels]
//
// Variables of embed_tokens: `<name>/class` [1, 1, channels] and `<name>/positions` [1, 1 + height width, channels].
// Sums over the batch are in order of the samples. Source: Dosovitskiy and others, "An image is worth 16x16 words:
// transformers for image recognition at scale", 2021.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct EmbedTokensParams {
  Initializer class_token = {}, positions = {};

  template <typename Fields>
  void visit(Fields& fields) {
    fields("class_token", class_token);
    fields("positions", positions);
  }
};

/// Errors: failed (x has no image shape).
Value embed_tokens(Graph& graph, const std::string& name, Value x, const EmbedTokensParams& params);
extern const OpType embed_tokens_op;
/// Errors: failed (x is not [batch, tokens, channels]).
Value first_token(Graph& graph, const std::string& name, Value x);
extern const OpType first_token_op;

/// Tensors: inputs {x}, outputs {y}, parameters {class, positions}.
std::unique_ptr<Op> make_embed_tokens_cpu(const OpTensors& tensors);
std::unique_ptr<Op> make_embed_tokens_cuda(const OpTensors& tensors);
/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_first_token_cpu(const OpTensors& tensors);
std::unique_ptr<Op> make_first_token_cuda(const OpTensors& tensors);

}  // namespace carillon
