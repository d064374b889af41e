// softmax_cross_entropy: the mean softmax cross-entropy of a batch, with optional label smoothing and mixing.
//
// Label smoothing spreads a part of each target over all classes. If the images of the batch are mixed (mixup, cutmix),
// the targets are mixed in the same way.
//
//   q[b, j] = (1 - e) t[b, j] + e / classes                                        e: the smoothing
//   t[b, j] = lambda [j = label_b] + (1 - lambda) [j = label_a]                    a = b - 1; for row 0: the last row
//   loss = 1/batch * sum over b of (log(sum over j of exp(z[b, j])) - sum over j of q[b, j] z[b, j])
//   dz[b, j] = (softmax(z_b)[j] - q[b, j]) / batch                                 z: [batch, classes]; loss: []
//
// lambda is drawn once per batch (kernels/shared/mixing.h). If there is no mixing, lambda is 1. The labels are int32
// [batch], in [0, classes). Exponentials are computed from z - max(z), so they cannot overflow. Source: Szegedy and
// others, "Rethinking the Inception architecture", 2016, section 7.
//
// With class weights w, or with a focal gamma, the formulas are:
//
//   p[b, j] = softmax(z_b)[j]
//   loss = 1/batch * sum over b, j of w[j] q[b, j] (1 - p[b, j])^gamma (-log p[b, j])
//   dz[b, j] = 1/batch * (p[b, j] sum over c of s[b, c] - s[b, j])          s[b, c] = w[c] q[b, c] h(p[b, c])
//
// softmax_cross_entropy_kernels.h defines h. If w = 1 and gamma = 0, this is the loss above, except for rounding. The
// sum is divided by the batch size, not by the sum of the weights. So a sample's gradient does not depend on the other
// samples of its batch, and micro-batches and ranks may divide the batch in any way. Sources: Lin and others, "Focal
// loss for dense object detection", 2017, equations 4 and 5; for smoothed and mixed targets, Keras's
// CategoricalFocalCrossentropy and PyTorch's CrossEntropyLoss with class probabilities.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"
#include "kernels/shared/mixing.h"

namespace carillon {

struct SoftmaxCrossEntropyParams {
  float label_smoothing = 0.0f;           ///< e, from 0 to 1
  MixingParams mixing = {};               ///< must be the same as the mixing of the images
  std::vector<float> class_weights = {};  ///< w, [classes], each finite and at least 0; empty: all weights are 1
  float focal_gamma = 0.0f;               ///< gamma, at least 0

  bool weighs_classes() const { return !class_weights.empty() || focal_gamma > 0.0f; }
};

/// `logits`: [batch, classes]. `labels`: a target of the graph, int32 []. Returns the loss, []. Errors: failed
/// (smoothing is outside 0..1; a weight or gamma is negative or not finite; the numbers of weights and classes differ;
/// the labels have another type or shape).
Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits, Value labels,
                            const SoftmaxCrossEntropyParams& params = {});

/// Tensors: inputs {z, labels}, outputs {loss}.
std::unique_ptr<Op> make_softmax_cross_entropy_cuda(const SoftmaxCrossEntropyParams& params, const OpContext& context,
                                                    const OpTensors& tensors);

}  // namespace carillon
