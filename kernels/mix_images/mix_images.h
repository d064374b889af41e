// mix_images: mixes each image of a batch with the image before it, by mixup or CutMix.
//
//   mixup     y_i = lambda x_i + (1 - lambda) x_j            j = i - 1; the first image is mixed with the last
//   CutMix    y_i = x_i, except in a box, where it is x_j
//
// lambda and the box are the same for the whole batch (kernels/shared/mixing.h). The loss draws the same lambda for the
// targets. x, y: [batch, height, width, channels]. Images are not trained, so there is no gradient.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/shared/mixing.h"

namespace carillon {

/// Errors: failed (params.height or width differs from x, x wants a gradient).
Value mix_images(Graph& graph, const std::string& name, Value x, const MixingParams& params);

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_mix_images_cuda(const MixingParams& params, const OpContext& context,
                                         const OpTensors& tensors);

}  // namespace carillon
