// warp_images: each image of a batch turned, enlarged or reduced, and moved, at random.
//
//   y[p] = x at c + R (p - c - t) / s       R = [cos a, sin a; -sin a, cos a], of (row, column)
//
// c is the image's centre. Angle a, factor s and the two of t, in parts of the height and the width, are uniform in the
// ranges of WarpParams and drawn for the sample's stream position alone (kernels/warp_images/warp_images_math.h).
// Between pixels x is bilinear, by channel; beyond an edge it is the edge's pixel. x, y: [batch, height, width,
// channels]. Images are not trained: there is no gradient. Source: torchvision's RandomAffine, with parts of a pixel.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct WarpParams {
  double rotation = 0.0;   ///< degrees: a from -rotation to rotation
  double zoom = 0.0;       ///< s from 1 - zoom to 1 + zoom; below 1
  double shift = 0.0;      ///< t from -shift to shift, of the height and of the width
  std::uint64_t seed = 0;  ///< of the draws

  bool warps() const { return rotation > 0.0 || zoom > 0.0 || shift > 0.0; }
};

/// Errors: failed (x is no images; x wants a gradient; parameters out of their ranges).
Value warp_images(Graph& graph, const std::string& name, Value x, const WarpParams& params);

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_warp_images_cpu(const WarpParams& params, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_warp_images_cuda(const WarpParams& params, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
