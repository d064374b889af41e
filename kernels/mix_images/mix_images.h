// mix_images: each image of a batch mixed with the one before it, by mixup or CutMix.
//
//   y_i = lambda x_i + (1 - lambda) x_j, or x_i and, in a box, x_j        j = i - 1, of the first the last image
//
// lambda and the box are the batch's (kernels/shared/mixing.h), where the loss finds the same lambda for the labels.
// x, y: [batch, height, width, channels]. Images are not trained: there is no gradient.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/shared/mixing.h"

namespace carillon {

/// `params`: of images as large as x's. Errors: failed (they are not; x wants a gradient).
Value mix_images(Graph& graph, const std::string& name, Value x, const MixingParams& params);

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_mix_images_cpu(const MixingParams& params, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_mix_images_cuda(const MixingParams& params, const OpContext& context,
                                         const OpTensors& tensors);

}  // namespace carillon
