// attention in bf16 on a CPU, by products of tiles (kernels/shared/bf16_tiles.h).
//
// The operands of all products are bf16. q, k, v and dy are bf16 in memory. The weights exp(S - largest S) in forward,
// and P and dS in backward, are rounded to bf16. Scores, their gradients and all sums are float32.
#pragma once

#include "kernels/attention/attention.h"

namespace carillon {

/// Tensors: as make_attention_cpu, but in bf16.
std::unique_ptr<Op> make_attention_bf16_cpu(const AttentionParams& params, const OpContext& context,
                                            const OpTensors& tensors);

}  // namespace carillon
