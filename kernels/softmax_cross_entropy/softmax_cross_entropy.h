// softmax_cross_entropy: the mean softmax cross-entropy of a batch, of its labels or, smoothed, of a mixture of each
// label with all classes; where images are mixed, of the same mixture of their labels.
//
//   q[b, j] = (1 - e) t[b, j] + e / classes                                        e: the smoothing
//   t[b, j] = lambda [j = label_b] + (1 - lambda) [j = label_a]                    a = b - 1, of the first the last row
//   loss = 1/batch * sum over b of (log(sum over j of exp(z[b, j])) - sum over j of q[b, j] z[b, j])
//   dz[b, j] = (softmax(z_b)[j] - q[b, j]) / batch                                 z: [batch, classes]; loss: []
//
// lambda: of the batch (kernels/shared/mixing.h), 1 without mixing.
// Computed from z - max(z), so that no exponential overflows. Labels: [batch] of int32 in [0, classes). Source: Szegedy
// and others, "Rethinking the Inception architecture", 2016, section 7.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/shared/mixing.h"

namespace carillon {

struct SoftmaxCrossEntropyParams {
  float label_smoothing = 0.0f;  ///< e, from 0 to 1
  MixingParams mixing = {};      ///< as the images'
};

/// `labels`: a target of the graph, int32 []. Errors: failed (a smoothing out of its range, labels of another form).
Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits, Value labels,
                            const SoftmaxCrossEntropyParams& params = {});

/// Tensors: inputs {z, labels}, outputs {loss}.
std::unique_ptr<Op> make_softmax_cross_entropy_cpu(const SoftmaxCrossEntropyParams& params, const OpContext& context,
                                                   const OpTensors& tensors);
std::unique_ptr<Op> make_softmax_cross_entropy_cuda(const SoftmaxCrossEntropyParams& params, const OpContext& context,
                                                    const OpTensors& tensors);

}  // namespace carillon
