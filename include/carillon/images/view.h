// View: which part of a picture becomes an image, how large, and how it is resized; and the usual rules for it.
//
// Training takes a part at random (Szegedy and others, "Going deeper with convolutions", 2015), as torchvision's
// RandomResizedCrop or as TensorFlow's sample_distorted_bounding_box of the whole picture. Evaluation resizes the whole
// picture and takes the middle.
#pragma once

#include <cstdint>
#include <span>

#include "carillon/core/philox.h"
#include "carillon/images/decode.h"

namespace carillon {

/// How a part of the picture is resized, and which pixels of that are the image.
struct PictureView {
  PictureBox part;                                     ///< of the picture; nothing beyond it is looked at
  std::int64_t resized_height = 0, resized_width = 0;  ///< of the part
  std::int64_t row = 0, column = 0;                    ///< of the image's first pixel in the resized part
  std::int64_t height = 0, width = 0;                  ///< of the image
  bool mirrored = false;                               ///< left-right, after all that
};

enum class Resampling {
  /// Pillow's and torchvision's bilinear with antialiasing: triangles as wide as an image's pixel, or a picture's if
  /// that is wider, around (i + 1/2) scale.
  antialiased,
  /// TensorFlow 1's resize_bilinear without align_corners: between the pixels at floor(i scale) and the next.
  corner_aligned,
};

struct CropRule {
  enum class Kind { torchvision, tensorflow };
  Kind kind = Kind::torchvision;
  double min_area = 0.08, max_area = 1.0;               ///< parts of the picture's
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  ///< width / height; torchvision: even in their logarithm
};

/// torchvision: 10 tries, then the largest part in the middle that keeps to the ratios. tensorflow: 100 tries, and a
/// part has a tenth of the picture's pixels at least (min_object_covered); then the whole picture.
PictureBox random_part(const PictureInfo& picture, const CropRule& rule, PhiloxDraws& draws);

/// The image of `height` x `width` in the middle of the picture, resized so that its shorter side has `shorter` pixels,
/// at least as many as the image's longer side, and the other in proportion, cut to whole ones.
PictureView central_view(const PictureInfo& picture, std::int64_t shorter, std::int64_t height, std::int64_t width);

/// What several pictures in turn are decoded and resized in.
struct ViewMemory {
  DecodedPart part;
  std::vector<float> row;
};

/// Writes the view of a JPEG or PNG file to `planes`: [3][height][width], red, green, blue. The same on every
/// processor. Errors: those of decode_part.
void render_view(std::span<const std::uint8_t> file, const PictureView& view, Resampling resampling, ViewMemory& memory,
                 std::span<std::uint8_t> planes);

/// The same, as [height][width][3].
void render_pixels(std::span<const std::uint8_t> file, const PictureView& view, Resampling resampling,
                   ViewMemory& memory, std::span<std::uint8_t> pixels);

}  // namespace carillon
