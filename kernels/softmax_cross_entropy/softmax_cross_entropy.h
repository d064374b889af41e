// softmax_cross_entropy: the mean softmax cross-entropy of a batch, with optional label smoothing and mixing.
//
// Label smoothing spreads a share of each target over all classes. If the images of the batch are mixed (mixup,
// cutmix), the targets are mixed in the same way.
//
//   q[b, j] = (1 - e) t[b, j] + e / classes                                        e: the smoothing
//   t[b, j] = lambda [j = label_b] + (1 - lambda) [j = label_a]                    a = b - 1; for row 0: the last row
//   loss = 1/batch * sum over b of (log(sum over j of exp(z[b, j])) - sum over j of q[b, j] z[b, j])
//   dz[b, j] = (softmax(z_b)[j] - q[b, j]) / batch                                 z: [batch, classes]; loss: []
//
// lambda: drawn once per batch (kernels/shared/mixing.h); 1 without mixing. Labels: int32 [batch], in [0, classes).
// Exponentials are computed from z - max(z), so they cannot overflow. Source: Szegedy and others, "Rethinking the
// Inception architecture", 2016, section 7.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/shared/mixing.h"

namespace carillon {

struct SoftmaxCrossEntropyParams {
  float label_smoothing = 0.0f;  ///< e, from 0 to 1
  MixingParams mixing = {};      ///< must equal the mixing of the images
};

/// `logits`: [batch, classes]. `labels`: a target of the graph, int32 []. Returns the loss, []. Errors: failed
/// (smoothing outside 0..1; labels of a different type or shape).
Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits, Value labels,
                            const SoftmaxCrossEntropyParams& params = {});

/// Tensors: inputs {z, labels}, outputs {loss}.
std::unique_ptr<Op> make_softmax_cross_entropy_cpu(const SoftmaxCrossEntropyParams& params, const OpContext& context,
                                                   const OpTensors& tensors);
std::unique_ptr<Op> make_softmax_cross_entropy_cuda(const SoftmaxCrossEntropyParams& params, const OpContext& context,
                                                    const OpTensors& tensors);

}  // namespace carillon
