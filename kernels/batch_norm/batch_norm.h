// batch_norm: normalises each channel to mean 0 and variance 1 over the batch, then scales and shifts it.
//
//   training:    mean[c] = sum of x[r,c] / n      variance[c] = sum of (x[r,c] - mean[c])^2 / n
//                moving_mean[c] = (1 - momentum) moving_mean[c] + momentum mean[c]
//                moving_variance[c] = (1 - momentum) moving_variance[c] + momentum variance[c] n / (n - 1)
//   evaluation:  mean, variance = moving_mean, moving_variance
//   inv[c] = 1 / sqrt(variance[c] + epsilon)      xhat[r,c] = (x[r,c] - mean[c]) inv[c]
//   z[r,c] = gamma[c] xhat[r,c] + beta[c]         y = f(z)       f: identity, ReLU, GELU or SiLU; NaN stays NaN
//
//   dz = dy f'(z)
//   dbeta[c] = sum of dz[r,c]                     dgamma[c] = sum of dz[r,c] xhat[r,c]
//   dx[r,c] = gamma[c] inv[c] (dz[r,c] - dbeta[c] / n - xhat[r,c] dgamma[c] / n)     in place of dy
//
// With an addend, f is the identity or a ReLU. dx then has its own memory:
//
//   y = f(z + addend)                             dz = daddend = dy f'(z + addend)        in place of dy
//
// On a GPU, with an addend and a ReLU, dy can be the sum of the gradients of two readers (OpTraits::summing_gradients).
//
// A frozen batch norm (freeze_statistics in src/graph/passes.h) uses its moving statistics also in training, and does
// not update them. The statistics are constants, so
//
//   dx[r,c] = gamma[c] inv[c] dz[r,c]
//
// x, y, addend: [batch, ..., channels]; r is the index of a row. n, the number of rows, is the product of all extents
// except the last. gamma, beta, moving_mean, moving_variance: [channels], float32 in every arithmetic. If trains_scale
// is false, gamma is the constant 1.
//
// The op computes moments from the distances to one value of the channel, and adds the sums of blocks in float64
// (batch_norm_math.h). Therefore no digits are lost if the mean is far from 0. The order of every sum depends only on
// the shapes. Passes fuse an activation that follows the op, or an addition with its ReLU, into the op
// (src/graph/passes.h). Backward computes z again from x. With an addend, backward computes f' from y and never reads
// the addend. This needs no additional memory, because the next op also keeps y.
//
// If the statistics include all ranks (synchronize_batches in src/graph/passes.h), the ranks exchange sums. Forward
// exchanges each rank's means and sums of squared distances from the mean. Backward exchanges each rank's sums of dz
// and of dz (x - centre). Each exchange has 2 * channels float64 values per rank. Each rank combines the values of all
// ranks in rank order. Each rank computes its own dgamma and dbeta; the ranks average them like all other gradients.
// The batches of all ranks have equal sizes.
//
// Memory bandwidth limits the speed. Forward reads x twice and writes y. Backward reads x and dy twice and writes dx to
// dy. These are the fewest possible accesses for a tensor that is larger than the caches, because the first pass must
// read all rows before the second pass begins. Writing y also reads the cache lines of y. The second pass runs from the
// last row to the first, because the caches may still contain the last rows. On a CPU, an expensive derivative is not
// computed twice, because the first backward pass writes dz to dy. Therefore a GELU needs one write more than a ReLU.
// If the GELU were a separate op, it would need a read and a write in forward, and two reads and a write in backward.
//
// If there is an addend, forward also reads the addend. If f is a ReLU, the first backward pass reads dy, y and x, and
// replaces dy by dz. If f is the identity, dz is dy, and the pass does not read y. The second pass reads dz and x, and
// writes dx. If the sum and its ReLU were a separate op, it would need two reads and a write in forward, and two reads
// and two writes in backward.
//
// A frozen batch norm exchanges nothing and reads x once in forward.
//
// Source: Ioffe, Szegedy, "Batch normalization: accelerating deep network training by reducing internal covariate
// shift", 2015; moving statistics as in PyTorch. A frozen batch norm corresponds to PyTorch's BatchNorm in eval() mode
// during training.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/elementwise/elementwise.h"

namespace carillon {

struct BatchNormParams {
  float epsilon = 1e-5f;  ///< above 0
  float momentum = 0.1f;  ///< weight of the new batch in the moving statistics, 0 to 1
  bool trains_scale = true;
  float initial_scale = 1.0f;  ///< initial gamma, if trains_scale is true

  template <typename Fields>
  void visit(Fields& fields) {
    fields("epsilon", epsilon);
    fields("momentum", momentum);
    fields("trains_scale", trains_scale);
    fields("initial_scale", initial_scale);
  }
};

/// Adds the variable `name`/beta (initially 0) and, if trains_scale is true, `name`/gamma. Also adds the buffers
/// `name`/moving_mean (initially 0) and `name`/moving_variance (initially 1), which are averaged over the ranks.
/// Errors: failed (x has fewer than 2 extents; a parameter is out of range).
Value batch_norm(Graph& graph, const std::string& name, Value x, const BatchNormParams& params = {});
extern const OpType batch_norm_op;

/// The settings of the op, for tensors of known shapes.
struct BatchNormForm {
  BatchNormParams params;
  ActivationKind activation = ActivationKind::none;  ///< f
  bool has_addend = false;                           ///< true: y = f(z + addend)
  bool over_all_towers = false;  ///< true: in training, n, mean, variance and the sums in dx include the batches of all
                                 ///< ranks
  /// True: the gradient of y is the sum of two gradients (OpTraits::summing_gradients). Requires has_addend and a ReLU.
  bool has_second_gradient = false;
  bool frozen = false;  ///< true: training uses the moving statistics and does not change them; overrides
                        ///< over_all_towers

  /// True if forward computes statistics of the batch.
  bool takes_batch(bool training) const { return training && !frozen; }
};

/// Tensors: inputs {x}, or {x, addend} if has_addend is true; outputs {y}, or {y, second} if has_second_gradient is
/// true; parameters {gamma, beta} or {beta}; buffers {moving_mean, moving_variance}.
std::unique_ptr<Op> make_batch_norm_cuda(const BatchNormForm& form, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
