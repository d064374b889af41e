// normalize_images: the batch's uint8 images as float32, normalised by channel; in training cropped from the padded
// image, mirrored and with a square cut out, all at random; one pass.
//
//   v = crop of pad(image_b), mirrored left-right or not         image_b: [channels, height, width] uint8, gathered
//   y_b = (v / 255 - mean_c) / deviation_c, 0 in the square      y: [batch, height, width, channels] float32
//
// The crop has the image's size, its place is uniform in the padded image; the square lies within the crop, uniformly.
// All is drawn for the sample's stream position alone (normalize_images_math.h), but for alternating mirroring: that is
// drawn once for each record, for epoch 0, and turns over with every epoch, which the position tells. So each record is
// seen both ways in any two epochs. Without `distort` y is the image.
// The first op of a graph: it has no tensor inputs and no gradient. Sources: PyTorch, torchvision's RandomCrop and
// Normalize; DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout", 2017;
// alternating: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
#pragma once

#include <array>

#include "carillon/graph/graph.h"

namespace carillon {

inline constexpr std::size_t max_normalized_channels = 4;

enum class ImagePadding {
  zero,     ///< black pixels
  reflect,  ///< the image mirrored at its first and last rows and columns, which are not repeated
};

enum class ImageMirroring {
  none,
  random,       ///< each sample with probability 1/2
  alternating,  ///< each record with probability 1/2 in epoch 0, otherwise in odd epochs, and so again in even ones
};

struct NormalizeImagesParams {
  Shape source = {3, 32, 32};                            ///< channels (1 to 4), height, width of a record
  std::array<float, max_normalized_channels> mean = {};  ///< by channel, of pixels from 0 to 1
  std::array<float, max_normalized_channels> deviation = {1.0f, 1.0f, 1.0f, 1.0f};
  std::int64_t padding = 0;  ///< rows and columns on each side; reflecting: fewer than the image has
  ImagePadding padding_mode = ImagePadding::zero;
  ImageMirroring mirroring = ImageMirroring::random;
  std::uint64_t record_count = 0;  ///< of the training set: what alternating mirroring tells epochs by
  std::int64_t cutout = 0;         ///< the square's side; 0: none
  bool distort = true;
  std::uint64_t seed = 0;  ///< of the draws
};

/// Errors: failed (parameters out of their ranges).
Value normalize_images(Graph& graph, const std::string& name, const NormalizeImagesParams& params);

/// Tensors: outputs {y}.
std::unique_ptr<Op> make_normalize_images_cpu(const NormalizeImagesParams& params, const OpContext& context,
                                              const OpTensors& tensors);
std::unique_ptr<Op> make_normalize_images_cuda(const NormalizeImagesParams& params, const OpContext& context,
                                               const OpTensors& tensors);

}  // namespace carillon
