// avg_pool: the mean of each window, for each channel. global_avg_pool: the mean of each image, for each channel.
//
//   y[n,p,q,c] = sum over i,j of x[n, p*s + i - before, q*s + j - before, c] / k[p,q]
//   dx[n,h,w,c] = sum over the windows (p,q) that contain (h,w) of dy[n,p,q,c] / k[p,q]
//
// k[p,q]: number of positions of the window inside x. Padding counts neither in the sum nor in k, as in TensorFlow
// (PyTorch: count_include_pad=False). x: [batch, height, width, channels]; y: [batch, output height, output width,
// channels], or [batch, channels] for global_avg_pool; padding as in kernels/shared/window.h.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

struct AvgPoolParams {
  std::int64_t window = 0;  ///< height and width
  std::int64_t stride = 1;
  Padding padding = Padding::same;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("window", window);
    fields("stride", stride);
    padding.visit(fields);
  }
};

/// Errors: failed (x is not [batch, height, width, channels], the window does not fit).
Value avg_pool(Graph& graph, const std::string& name, Value x, const AvgPoolParams& params);
extern const OpType avg_pool_op;
/// Errors: failed (x is not [batch, height, width, channels]).
Value global_avg_pool(Graph& graph, const std::string& name, Value x);
extern const OpType global_avg_pool_op;

/// The pooling for tensors of known shapes.
struct AvgPoolGeometry {
  SlidingWindow vertical, horizontal;
};

/// Tensors: inputs {x}, outputs {y}, no parameters.
std::unique_ptr<Op> make_avg_pool_cuda(const AvgPoolGeometry& geometry, const OpContext& context,
                                       const OpTensors& tensors);

}  // namespace carillon
