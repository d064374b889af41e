// warp_images: rotates, zooms and shifts each image of a batch at random.
//
//   y[p] = x at c + R (p - c - t) / s       R = [cos a, sin a; -sin a, cos a], for (row, column)
//
// c is the centre of the image. The angle a, the zoom s and the shift t, in fractions of height and width, are uniform
// in the ranges of WarpParams. The draws depend only on the seed and the stream position
// (kernels/warp_images/warp_images_kernels.h). Between pixels, x is interpolated bilinearly by channel; outside the
// image, x is the nearest edge pixel. x, y: [batch, height, width, channels]. Images are not trained, so there is no
// gradient. Source: torchvision's RandomAffine, with fractions of a pixel.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct WarpParams {
  double rotation = 0.0;   ///< degrees: a from -rotation to rotation
  double zoom = 0.0;       ///< s from 1 - zoom to 1 + zoom; below 1
  double shift = 0.0;      ///< t from -shift to shift, in fractions of height and width
  std::uint64_t seed = 0;  ///< seed of the draws

  bool warps() const { return rotation > 0.0 || zoom > 0.0 || shift > 0.0; }
};

/// Errors: failed (x is not images, x wants a gradient, a parameter is out of range).
Value warp_images(Graph& graph, const std::string& name, Value x, const WarpParams& params);

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_warp_images_cuda(const WarpParams& params, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
