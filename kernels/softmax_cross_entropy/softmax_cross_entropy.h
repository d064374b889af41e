// softmax_cross_entropy: the mean sparse softmax cross-entropy of a batch.
//
//   loss = 1/batch * sum over b of (log(sum over j of exp(z[b, j])) - z[b, label_b])     z: [batch, classes]; loss: []
//   dz[b, j] = (softmax(z_b)[j] - [j = label_b]) / batch
//
// Computed from z - max(z), so that no exponential overflows. Labels come from the step's batch and lie in [0,
// classes).
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits);

/// Tensors: inputs {z}, outputs {loss}.
std::unique_ptr<Op> make_softmax_cross_entropy_cpu(const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_softmax_cross_entropy_cuda(const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
