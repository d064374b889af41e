// mean_loss: a loss that compares each output with one target. The result is the mean over the batch and over all
// outputs of a sample.
//
//   loss = 1 / (batch n) * sum over b and j of f(z[b, j], t[b, j])        z, t: [batch, n]; loss: []
//   dz[b, j] = f'(z[b, j], t[b, j]) / (batch n)                           f': the derivative by z
//
//   sigmoid_cross_entropy   f = max(z, 0) - z t + log(1 + exp(-|z|))      f' = sigma(z) - t      t: from 0 to 1
//   squared_error           f = e^2                                       f' = 2 e               e = z - t
//   absolute_error          f = |e|                                       f' = sign(e), 0 if e is 0
//   huber                   f = e^2 / 2          if |e| <= delta          f' = e
//                           f = delta (|e| - delta / 2)  otherwise        f' = delta sign(e)
//
// If the images of the batch are mixed (mixup, cutmix), the targets are mixed in the same way:
//
//   t[b, j] = lambda target[b, j] + (1 - lambda) target[a, j]             a = b - 1; for row 0: the last row
//
// lambda is drawn once per batch (kernels/shared/mixing.h). If there is no mixing, lambda is 1. The targets are uint8
// (0 or 1) or float32. sigmoid_cross_entropy is binary cross-entropy with logits. Source of huber: Huber, "Robust
// estimation of a location parameter", 1964.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/shared/mixing.h"

namespace carillon {

enum class MeanLossKind { sigmoid_cross_entropy, squared_error, absolute_error, huber };

struct MeanLossParams {
  MeanLossKind kind = MeanLossKind::squared_error;
  float delta = 1.0f;        ///< above 0; huber is linear for errors above delta
  MixingParams mixing = {};  ///< must be the same as the mixing of the images
};

/// `outputs`: [batch, n]. `targets`: a target of the graph, uint8 or float32 [n]. Returns the loss, []. Errors: failed
/// (the targets have another shape or type; delta is not above 0).
Value mean_loss(Graph& graph, const std::string& name, Value outputs, Value targets, const MeanLossParams& params);

/// Tensors: inputs {z, targets}, outputs {loss}.
std::unique_ptr<Op> make_mean_loss_cuda(const MeanLossParams& params, const OpContext& context,
                                        const OpTensors& tensors);

}  // namespace carillon
