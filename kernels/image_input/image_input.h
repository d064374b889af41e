// image_input: converts the batch's uint8 images to numbers in one pass, and changes them randomly in training.
// mix_images: mixes the images of a batch. These two ops do all augmentation that belongs to a step. Decoders do the
// other augmentation (images/view.h).
//
//   v   = crop of pad(image_b), mirrored left-right or not     image_b: [height, width, channels] uint8, gathered
//   y_b = warp(values(v), 0 in a square)                       y: [batch, crop_height, crop_width, channels], or
//                                                              [batch, n] of vectors; float32 or bf16
//
//   values           formula, with channel c
//   scaled           v scale
//   normalized       (v / 255 - mean_c) / deviation_c
//   standardized     (u - mean) / max(std, 1 / sqrt(n))        u = (v + b - m_c) f + m_c; n values in the crop
//
// Crop: in training, the position of the crop in the padded image is uniformly random. Otherwise the crop is at the
// centre. Mirroring: `alternating` is drawn once for each record, for epoch 0, and inverted in each further epoch.
// Therefore, of any two consecutive epochs, one shows a record mirrored and the other shows it not mirrored. The stream
// position determines the epoch.
//
// Standardized: mean and std (of the population) are over all values of u. No value is clipped. b and f are drawn in
// training: brightness is uniform in [-brightness, brightness), contrast in [contrast[0], contrast[1]). m_c is the mean
// of channel c of v + b. All steps together are one exact map per channel, which is computed from integer sums.
// Brightness cancels out.
//
// Warp: y[p] = x at o + R (p - o - t) / s, R = [cos a, sin a; -sin a, cos a] for (row, column). o is the centre of the
// image. The angle a, the zoom s and the shift t are uniform in the ranges of WarpParams. Between pixels, each channel
// of x is interpolated bilinearly. Outside the image, x is the nearest edge pixel.
//
// All draws depend only on the seed, the stream position and the record (image_input_kernels.h). If `distort` is false,
// only warping is random. The op is the first op of a graph: it has no tensor inputs and no gradient.
//
// Sources: TensorFlow's CIFAR-10 tutorial (standardized); torchvision's RandomCrop, Normalize and RandomAffine;
// DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout", 2017; alternating mirroring:
// Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
#pragma once

#include <array>

#include "carillon/graph/graph.h"
#include "kernels/shared/mixing.h"

namespace carillon {

inline constexpr std::size_t max_image_channels = 4;

enum class PixelValues { scaled, normalized, standardized };

enum class ImagePadding {
  zero,     ///< black pixels
  reflect,  ///< the image is mirrored at its first and last rows and columns, which are not repeated
};

enum class ImageMirroring {
  none,
  random,       ///< each sample is mirrored with probability 1/2
  alternating,  ///< each record is mirrored with probability 1/2 in epoch 0; each further epoch inverts this
};

struct WarpParams {
  double rotation = 0.0;   ///< degrees: a is from -rotation to rotation
  double zoom = 0.0;       ///< s is from 1 - zoom to 1 + zoom; below 1
  double shift = 0.0;      ///< t is from -shift to shift, as fractions of height and width
  std::uint64_t seed = 0;  ///< seed of the draws

  bool warps() const { return rotation > 0.0 || zoom > 0.0 || shift > 0.0; }
};

struct ImageInputParams {
  // These members come from GraphContext and are not attributes: sample, distort, record_count, seed.
  /// Extents of one image: height, width, channels. If the op does more than scale and warp, there are at most
  /// max_image_channels channels. If the op only scales, vectors {n} are also possible.
  Shape sample = {32, 32, 3};
  PixelValues values = PixelValues::scaled;
  float scale = 1.0f;                               ///< only for scaled values
  std::array<float, max_image_channels> mean = {};  ///< only for normalized values; by channel, for pixels from 0 to 1
  std::array<float, max_image_channels> deviation = {1.0f, 1.0f, 1.0f, 1.0f};  ///< only for normalized values; above 0
  float brightness = 0.0f;                                                     ///< only for standardized values
  std::array<float, 2> contrast = {1.0f, 1.0f};                                ///< only for standardized values
  std::int64_t crop_height = 0, crop_width = 0;                                ///< 0: the extent of the image
  std::int64_t padding = 0;  ///< number of rows and columns on each side; fewer than the image has
  ImagePadding padding_mode = ImagePadding::zero;
  ImageMirroring mirroring = ImageMirroring::none;
  std::int64_t cutout = 0;  ///< side of the square in pixels; 0: no square
  bool distort = true;
  WarpParams warp = {};            ///< not an attribute; see warp_images()
  std::uint64_t record_count = 0;  ///< number of records of the training set; it is the length of an epoch for
                                   ///< alternating mirroring
  std::uint64_t seed = 0;          ///< seed of the draws

  template <typename Fields>
  void visit(Fields& fields) {
    fields.one_of("values", values, {"scaled", "normalized", "standardized"});
    fields("scale", scale);
    fields("mean", mean);
    fields("deviation", deviation);
    fields("brightness", brightness);
    fields("contrast", contrast);
    fields("crop_height", crop_height);
    fields("crop_width", crop_width);
    fields("padding", padding);
    fields.one_of("padding_mode", padding_mode, {"zero", "reflect"});
    fields.one_of("mirroring", mirroring, {"none", "random", "alternating"});
    fields("cutout", cutout);
  }
};

/// Errors: failed (a parameter is out of range). The ranges are: crop_height and crop_width are 0 or at most the
/// image's extents; padding is below these extents; cutout is at most the smaller side of the crop; deviations are
/// above 0; brightness is at least 0; contrast is in ascending order. WarpParams states its own ranges.
Value image_input(Graph& graph, const std::string& name, const ImageInputParams& params);
extern const OpType image_input_op;

/// Changes the image_input op that outputs `images`, so that the op warps them. Errors: failed (another op outputs
/// `images`; `images` has no image shape; a parameter is out of range).
void warp_images(Graph& graph, Value images, const WarpParams& params);

/// Mixes each image of a batch with the image before it, by mixup or CutMix.
///
///   mixup     y_i = lambda x_i + (1 - lambda) x_j            j = i - 1; the first image is mixed with the last
///   CutMix    y_i = x_i, except in a box, where it is x_j
///
/// lambda and the box are the same for the whole batch (kernels/shared/mixing.h). The loss draws the same lambda for
/// the targets. x, y: [batch, height, width, channels]. Images are not trained, so there is no gradient. mix_images is
/// a separate op because an output depends on two images, so that image_input would have to compute each image twice.
/// Errors: failed (params.height or params.width differs from x; x needs a gradient).
Value mix_images(Graph& graph, const std::string& name, Value x, const MixingParams& params);

/// Tensors: outputs {y}. Errors: failed (the values are standardized, and the images have more than 2^24 pixels).
std::unique_ptr<Op> make_image_input_cuda(const ImageInputParams& params, const OpContext& context,
                                          const OpTensors& tensors);
/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_mix_images_cuda(const MixingParams& params, const OpContext& context,
                                         const OpTensors& tensors);

}  // namespace carillon
