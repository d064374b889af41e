// attention: multi-head self-attention of the tokens of a sample, without the linear layers before and after it.
//
//   S[i, j] = sum over c of q[i, c] * k[j, c] / sqrt(width / heads)       for each sample and head
//   P[i, j] = exp(S[i, j]) / sum over j' of exp(S[i, j'])
//   y[i, c] = sum over j of P[i, j] * v[j, c]
//
//   dv[j, c] = sum over i of P[i, j] * dy[i, c]            dP[i, j] = sum over c of dy[i, c] * v[j, c]
//   dS[i, j] = P[i, j] * (dP[i, j] - d[i])                 d[i] = sum over j of P[i, j] * dP[i, j]
//   dq[i, c] = sum over j of dS[i, j] * k[j, c] / sqrt(width / heads)
//   dk[j, c] = sum over i of dS[i, j] * q[i, c] / sqrt(width / heads)
//
//   qkv: [batch, tokens, 3 * width]   y: [batch, tokens, width]
//
// A token's row of qkv has the query, then the key, then the value. The query, the key and the value are each divided
// into groups of width / heads neighbouring channels, one group per head. The three groups of a head are its q, k and
// v. P is not stored. Backward computes P again from qkv and from numbers that forward keeps for each row of S. Forward
// keeps two numbers per row or, with cuDNN's fused operation, one number per row. If a score S[i, j] is infinite, row i
// of y becomes NaN, so that no infinity is hidden.
//
// Sources: Vaswani et al., "Attention is all you need", 2017. Dosovitskiy et al., "An image is worth 16x16 words",
// 2021. Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022.
#pragma once

#include <cmath>

#include "carillon/graph/graph.h"

namespace carillon {

struct AttentionParams {
  std::int64_t heads = 6;  ///< divides the width

  template <typename Fields>
  void visit(Fields& fields) {
    fields("heads", heads);
  }
};

/// Errors: failed (qkv is not [batch, tokens, 3 * width], or heads does not divide width).
Value attention(Graph& graph, const std::string& name, Value qkv, const AttentionParams& params = {});
extern const OpType attention_op;

/// The extents of the tensors.
struct AttentionShape {
  std::int64_t batch = 0, tokens = 0, width = 0, heads = 1;

  AttentionShape(const Shape& output, const AttentionParams& params)
      : batch(output[0]), tokens(output[1]), width(output[2]), heads(params.heads) {}
  std::int64_t head_size() const { return width / heads; }  ///< number of channels of a head
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_size())); }
};

/// Tensors: inputs {qkv}, outputs {y}. Uses make_attention_bf16_cpu for tensors in bf16.
std::unique_ptr<Op> make_attention_cpu(const AttentionParams& params, const OpContext& context,
                                       const OpTensors& tensors);
/// Makes the op of make_attention_cpu for tensors in bf16.
std::unique_ptr<Op> make_attention_bf16_cpu(const AttentionParams& params, const OpContext& context,
                                            const OpTensors& tensors);
/// Makes an op that uses a fused operation of cuDNN (in bf16) or matrix products. Errors: the
/// errors of make_attention_products_cuda.
std::unique_ptr<Op> make_attention_cuda(const AttentionParams& params, const OpContext& context,
                                        const OpTensors& tensors);
/// Makes an op that uses matrix products, for every arithmetic and head size. Errors: failed (the scores of one head
/// and sample do not fit into the device's workspace).
std::unique_ptr<Op> make_attention_products_cuda(const AttentionParams& params, const OpContext& context,
                                                 const OpTensors& tensors);

}  // namespace carillon
