// batch_norm: every channel brought to mean 0 and variance 1 over the batch, then scaled and shifted.
//
//   training:    mean[c] = sum of x[r,c] / n      variance[c] = sum of (x[r,c] - mean[c])^2 / n
//                moving_mean[c] = (1 - momentum) moving_mean[c] + momentum mean[c]
//                moving_variance[c] = (1 - momentum) moving_variance[c] + momentum variance[c] n / (n - 1)
//   evaluation:  mean, variance = moving_mean, moving_variance
//   inv[c] = 1 / sqrt(variance[c] + epsilon)      xhat[r,c] = (x[r,c] - mean[c]) inv[c]
//   z[r,c] = gamma[c] xhat[r,c] + beta[c]         y = f(z)       f: nothing, or ReLU, GELU, SiLU; a NaN stays one
//
//   dz = dy f'(z)
//   dbeta[c] = sum of dz[r,c]                     dgamma[c] = sum of dz[r,c] xhat[r,c]
//   dx[r,c] = gamma[c] inv[c] (dz[r,c] - dbeta[c] / n - xhat[r,c] dgamma[c] / n)     in place of dy
//
// x, y: [batch, ..., channels], r running over the n rows that all extents but the last make; gamma, beta, moving_mean,
// moving_variance: [channels], float32 in every arithmetic. Without trains_scale gamma is 1 and no variable.
//
// Moments are summed about a value of their own rows, in double from block to block (batch_norm_math.h), so a mean far
// from 0 costs no digits. The order of every sum depends on the shapes alone. An activation behind it becomes part of
// it (src/graph/passes.h), and z is computed again from x: backward needs no outputs.
//
// Over all towers (src/graph/passes.h, synchronize_batches), a forward exchanges each tower's mean and squares, a
// backward its two sums, 2 channels in double each; dgamma and dbeta are the tower's own, to be averaged with all
// gradients. Towers have batches of equal size.
//
// It is bound by memory. Forward reads x twice and writes y; backward reads x and dy twice and writes dx where dy was:
// the least there is for a tensor larger than the caches, since a first pass has to see all rows (a write of y also
// reads its lines). The second pass goes from the last rows to the first, which the caches may still hold. The
// derivative of a smooth activation, which takes longer than a pass, is not computed twice on a CPU: the first pass
// back writes dz where dy was. So a GELU costs one write more than a ReLU, where as an op it cost a read and a write
// forward and two reads and a write back. Source: Ioffe, Szegedy, "Batch normalization: accelerating deep network
// training by reducing internal covariate shift", 2015; moving statistics as PyTorch has them.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/elementwise/elementwise.h"

namespace carillon {

struct BatchNormParams {
  float epsilon = 1e-5f;  ///< > 0
  float momentum = 0.1f;  ///< share of the new batch in the moving statistics, 0 to 1
  bool trains_scale = true;
  float initial_scale = 1.0f;  ///< of gamma, where it is trained
};

/// Adds the variables `name`/gamma (where trains_scale) and `name`/beta (0) and the buffers `name`/moving_mean (0) and
/// `name`/moving_variance (1), which are means over the ranks. Errors: failed (an x of fewer than 2 extents, parameters
/// out of their ranges).
Value batch_norm(Graph& graph, const std::string& name, Value x, const BatchNormParams& params = {});

/// The op between tensors whose shapes are known.
struct BatchNormForm {
  BatchNormParams params;
  ActivationKind activation = ActivationKind::none;  ///< f
  bool over_all_towers = false;  ///< n, mean, variance and the sums in dx are of all towers' batches, in training
};

/// Tensors: inputs {x}, outputs {y}, parameters {gamma, beta} or {beta}, buffers {moving_mean, moving_variance}.
std::unique_ptr<Op> make_batch_norm_cpu(const BatchNormForm& form, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_batch_norm_cuda(const BatchNormForm& form, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
