// augment: the batch's uint8 images as standardised float32 crops, distorted at random in training; one pass.
//
//   v = crop of image_b, flipped left-right or not        image_b: [channels, height, width] uint8 (CHW), gathered
//   v = v + brightness                                    distort only; U[-63, 63)
//   v = (v - mean_c) * contrast + mean_c                  distort only; U[0.2, 1.8), mean_c: of v's channel c
//   y_b = (v - mean) / max(std, 1 / sqrt(n))              y: [batch, crop_height, crop_width, channels] float32 (NHWC)
//
// mean and std (of the population) are over all n values of the crop; nothing is clipped. Crop, flip, brightness and
// contrast are drawn for the sample's stream position alone (cifar_distort_draw.h); without `distort` the crop is the
// centre. From integer sums all four steps are one exact map a channel (cifar_distort_math.h); brightness cancels out
// in it. The first op of a graph: it has no tensor inputs and no gradient. Source: TensorFlow's CIFAR-10 tutorial.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct CifarDistortParams {
  Shape source = {3, 32, 32};     ///< channels (1 to max_image_channels), height, width of a record
  std::int64_t crop_height = 24;  ///< 1 to the source's
  std::int64_t crop_width = 24;
  bool distort = true;
  std::uint64_t seed = 0;  ///< of the draws
};

/// Errors: failed (parameters out of their ranges).
Value cifar_distort(Graph& graph, const std::string& name, const CifarDistortParams& params);

/// Tensors: outputs {y}.
std::unique_ptr<Op> make_cifar_distort_cpu(const CifarDistortParams& params, const OpContext& context,
                                           const OpTensors& tensors);
std::unique_ptr<Op> make_cifar_distort_cuda(const CifarDistortParams& params, const OpContext& context,
                                            const OpTensors& tensors);

}  // namespace carillon
