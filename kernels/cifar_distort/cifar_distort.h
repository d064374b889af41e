// cifar_distort: the batch's uint8 images as standardised float32 crops, randomly distorted in training, in one pass.
//
//   v = crop of image_b, flipped left-right or not        image_b: [channels, height, width] uint8 (CHW), gathered
//   v = v + brightness                                    distort only; U[-63, 63)
//   v = (v - mean_c) * contrast + mean_c                  distort only; U[0.2, 1.8), mean_c: mean of channel c of v
//   y_b = (v - mean) / max(std, 1 / sqrt(n))              y: [batch, crop_height, crop_width, channels] float32 (NHWC)
//
// mean and std (of the population) are over all n values of the crop; no value is clipped. Crop, flip, brightness and
// contrast depend only on the seed and the stream position (cifar_distort_kernels.h). Without `distort`, the crop
// is the centre. All four steps are one exact map per channel, computed from integer sums (cifar_distort_kernels.h);
// brightness cancels out. The op is the first of a graph: it has no tensor inputs and no gradient. Source: TensorFlow's
// CIFAR-10 tutorial.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct CifarDistortParams {
  // From GraphContext, no attributes: source, distort, seed.
  Shape source = {3, 32, 32};     ///< channels (1 to max_image_channels), height, width of a record
  std::int64_t crop_height = 24;  ///< 1 to the source height
  std::int64_t crop_width = 24;
  bool distort = true;
  std::uint64_t seed = 0;  ///< seed of the draws

  template <typename Fields>
  void visit(Fields& fields) {
    fields("crop_height", crop_height);
    fields("crop_width", crop_width);
  }
};

/// Errors: failed (a parameter is out of range).
Value cifar_distort(Graph& graph, const std::string& name, const CifarDistortParams& params);
extern const OpType cifar_distort_op;

/// Tensors: outputs {y}.
std::unique_ptr<Op> make_cifar_distort_cuda(const CifarDistortParams& params, const OpContext& context,
                                            const OpTensors& tensors);

}  // namespace carillon
