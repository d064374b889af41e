// normalize_images: the batch's uint8 images as float32, normalised by channel, in one pass. In training, an image is
// padded, randomly cropped and mirrored, and a random square of it is set to 0.
//
//   v = crop of pad(image_b), mirrored left-right or not         image_b: [channels, height, width] uint8, gathered
//   y_b = (v / 255 - mean_c) / deviation_c, 0 in the square      y: [batch, height, width, channels] float32
//
// The crop has the image's size and a uniform position in the padded image. The square is inside the crop at a uniform
// position. The draws depend only on the seed and the stream position (normalize_images_kernels.h). Alternating
// mirroring is drawn once for each record, for epoch 0, and inverted in each further epoch. So any two consecutive
// epochs show each record both mirrored and not mirrored. The stream position determines the epoch. Without `distort`,
// y is the normalised image. The op is the first of a graph: it has no tensor inputs and no gradient.
//
// Sources: PyTorch, torchvision's RandomCrop and Normalize; DeVries, Taylor, "Improved regularization of convolutional
// neural networks with cutout", 2017; alternating mirroring: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU",
// 2024.
#pragma once

#include <array>

#include "carillon/graph/graph.h"

namespace carillon {

inline constexpr std::size_t max_normalized_channels = 4;

enum class ImagePadding {
  zero,     ///< black pixels
  reflect,  ///< the image mirrored at its first and last rows and columns, without repeating them
};

enum class ImageMirroring {
  none,
  random,       ///< each sample with probability 1/2
  alternating,  ///< each record with probability 1/2 in epoch 0, inverted in each further epoch
};

struct NormalizeImagesParams {
  // From GraphContext, no attributes: source, record_count, distort, seed.
  Shape source = {3, 32, 32};                            ///< channels (1 to 4), height, width of a record
  std::array<float, max_normalized_channels> mean = {};  ///< by channel, for pixels from 0 to 1
  std::array<float, max_normalized_channels> deviation = {1.0f, 1.0f, 1.0f, 1.0f};
  std::int64_t padding = 0;  ///< rows and columns on each side; reflect: fewer than the image has
  ImagePadding padding_mode = ImagePadding::zero;
  ImageMirroring mirroring = ImageMirroring::random;
  std::uint64_t record_count = 0;  ///< records of the training set (alternating mirroring: length of an epoch)
  std::int64_t cutout = 0;         ///< side of the square in pixels; 0: no square
  bool distort = true;
  std::uint64_t seed = 0;  ///< seed of the draws

  template <typename Fields>
  void visit(Fields& fields) {
    fields("mean", mean);
    fields("deviation", deviation);
    fields("padding", padding);
    fields.one_of("padding_mode", padding_mode, {"zero", "reflect"});
    fields.one_of("mirroring", mirroring, {"none", "random", "alternating"});
    fields("cutout", cutout);
  }
};

/// Errors: failed (a parameter is out of range).
Value normalize_images(Graph& graph, const std::string& name, const NormalizeImagesParams& params);
extern const OpType normalize_images_op;

/// Tensors: outputs {y}.
std::unique_ptr<Op> make_normalize_images_cuda(const NormalizeImagesParams& params, const OpContext& context,
                                               const OpTensors& tensors);

}  // namespace carillon
