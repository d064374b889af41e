// View: how a picture becomes an input image of the network. A view states the part of the picture, the size of the
// image, and the position of the part in the image. The functions of this file choose views by the usual rules. The
// functions in the second half of this file augment the image.
//
// Training crops a random part (Szegedy and others, "Going deeper with convolutions", 2015), as torchvision's
// RandomResizedCrop or TensorFlow's sample_distorted_bounding_box. Evaluation resizes the whole picture and crops the
// centre. With Fit::pad and Fit::squash, an evaluation uses the whole picture.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/core/philox.h"
#include "carillon/images/decode.h"

namespace carillon {

/// How a picture becomes an image with other proportions.
enum class Fit {
  crop,    ///< the image shows a part of the picture
  pad,     ///< bars of one colour extend the picture to the proportions of the image
  squash,  ///< the picture is stretched to the proportions of the image
};

/// The part of the picture that is resized, and the crop of the resized part that becomes the image.
struct PictureView {
  PictureBox part;                                     ///< part of the picture; pixels outside it have no influence
  std::int64_t resized_height = 0, resized_width = 0;  ///< size of the resized part
  /// Position of the image in the resized part. The image may extend beyond the resized part, but must overlap it.
  std::int64_t row = 0, column = 0;
  std::int64_t height = 0, width = 0;  ///< size of the image
  bool mirrored = false;               ///< true: mirror the image left-right, as the last step
  Colour background = {};              ///< colour behind transparent pixels
  Colour padding = {};                 ///< colour of image pixels outside the resized part
};

enum class Resampling {
  /// Resizes bilinearly with antialiasing, as Pillow and torchvision do. With scale = pixels of the picture per pixel
  /// of the image, image pixel i is a weighted mean around the position (i + 1/2) scale. The weights fall linearly to 0
  /// at the distance max(1, scale).
  antialiased,
  /// Resizes as TensorFlow 1's resize_bilinear without align_corners: interpolates between the pixel at floor(i scale)
  /// and the next pixel.
  top_left_aligned,
};

struct CropRule {
  enum class Kind { torchvision, tensorflow };
  Kind kind = Kind::torchvision;
  double min_area = 0.08, max_area = 1.0;               ///< area of the part as a share of the picture's area
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  ///< width / height. For Kind::torchvision, the distribution is
                                                        ///< log-uniform
};

/// Draws a random part of a picture. Kind::torchvision: makes 10 tries, then uses the largest centred part within the
/// ratios. Kind::tensorflow: makes 100 tries, then uses the whole picture; a part must have at least a tenth of the
/// picture's pixels (min_object_covered).
PictureBox random_part(const PictureInfo& picture, const CropRule& rule, PhiloxDraws& draws);

/// Returns the view that resizes the shorter side of the picture to `shorter` pixels and crops `height` x `width`
/// pixels from the centre. `shorter` must not be less than max(height, width). The longer side is scaled in proportion
/// and rounded down. If two positions of the crop are equally near the centre, the even position is used, as in
/// torchvision.
PictureView central_view(const PictureInfo& picture, std::int64_t shorter, std::int64_t height, std::int64_t width);

/// Returns the view of a picture for an evaluation. With Fit::crop, this is central_view. With Fit::pad and
/// Fit::squash, the view shows the whole picture and ignores `shorter`. Fit::pad works as Pillow's ImageOps.pad.
PictureView fitted_view(const PictureInfo& picture, Fit fit, std::int64_t shorter, std::int64_t height,
                        std::int64_t width);

/// Returns a view that shows a random part of a picture as an image of `height` x `width` pixels. Fit::crop:
/// random_part draws the part. Fit::pad and Fit::squash: the part is drawn from the padded or stretched picture. With
/// Fit::pad, the part is then moved until it shows as much of the picture as the size of the part allows.
PictureView random_view(const PictureInfo& picture, Fit fit, const CropRule& rule, PhiloxDraws& draws,
                        std::int64_t height, std::int64_t width);

/// Memory for decoding and resizing, which is reused for the next picture.
struct ViewMemory {
  DecodedPart part;
  std::vector<float> row;
};

/// Writes the view of a JPEG or PNG file to `pixels`: [height][width][3], red, green, blue. The result has the same
/// bits on all processors. Errors: as decode_part.
void render_view(std::span<const std::uint8_t> file, const PictureView& view, Resampling resampling, ViewMemory& memory,
                 std::span<std::uint8_t> pixels);

// Augment: changes a decoded training image at random, by flips, quarter turns, colour jitter, RandAugment and random
// erasing.
//
// RandAugment: Cubuk, Zoph, Shlens, Le, "RandAugment: Practical automated data augmentation with a reduced search
// space", 2020. The 14 ops, their ranges and their rounding are the same as in torchvision.transforms.RandAugment for
// Pillow images (nearest neighbour, black fill, 31 magnitudes). Random erasing: Zhong, Zheng, Kang, Li, Yang, "Random
// erasing data augmentation", 2017. Random erasing works as torchvision.transforms.RandomErasing with its default area
// (0.02 to 0.33 of the image) and ratio (0.3 to 3.3).
//
// An image is [height][width][3]: red, green, blue. These functions throw no errors.

enum class AugmentOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
};
/// The names of the ops in torchvision, in torchvision's order.
inline constexpr std::array<std::string_view, 14> augment_op_names{
    "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
    "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};
inline constexpr std::int64_t max_augment_magnitude = 30;

struct RandAugment {
  std::int64_t op_count = 0;   ///< ops per image, drawn with replacement; 0: disabled
  std::int64_t magnitude = 0;  ///< strength of every op: 0 to max_augment_magnitude

  bool operator==(const RandAugment&) const = default;
};

/// An image, and memory for the result of the next op.
struct AugmentedImage {
  std::span<std::uint8_t> pixels;  ///< [height][width][3]
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t>& scratch;
};

/// Applies an op. `negative`: applies the op in the opposite direction. Only shears, translations, rotation,
/// brightness, color, contrast and sharpness use `negative`.
void apply(AugmentOp op, std::int64_t magnitude, bool negative, const AugmentedImage& image);

/// Draws `op_count` ops and applies them.
void rand_augment(const RandAugment& settings, PhiloxDraws& draws, const AugmentedImage& image);

/// Flips and turns the image at random. `flips`: flips the image top-bottom with probability 1/2. `turns`: rotates the
/// image by 0 to 3 quarter turns; the image must be square.
void random_orientation(bool flips, bool turns, PhiloxDraws& draws, const AugmentedImage& image);

/// Multiplies brightness, contrast and saturation by random factors from 1 - strength to 1 + strength, in random order.
/// Works as torchvision.transforms.ColorJitter(strength, strength, strength) for Pillow images. `strength`: 0 to 1.
void color_jitter(double strength, PhiloxDraws& draws, const AugmentedImage& image);

/// Draws the box to erase in at most 10 tries. If no box fits, the height of the result is 0.
PictureBox erased_box(std::int64_t height, std::int64_t width, PhiloxDraws& draws);

/// With probability `probability`, fills a random box of the image (erased_box) with the colour `fill`.
void random_erasing(double probability, const Colour& fill, PhiloxDraws& draws, const AugmentedImage& image);

}  // namespace carillon
