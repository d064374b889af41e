// View: the part of a picture that becomes an image, its size and its resampling, with the usual rules to choose them.
//
// Training crops a random part (Szegedy and others, "Going deeper with convolutions", 2015), as torchvision's
// RandomResizedCrop or TensorFlow's sample_distorted_bounding_box. Evaluation resizes the whole picture and crops the
// centre. With Fit::pad and Fit::squash, an evaluation shows the whole picture.
#pragma once

#include <cstdint>
#include <span>

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
  PictureBox part;                                     ///< in the picture; pixels outside have no influence
  std::int64_t resized_height = 0, resized_width = 0;  ///< size of the resized part
  /// Position of the image in the resized part. The image may extend beyond the part; it must contain some of it.
  std::int64_t row = 0, column = 0;
  std::int64_t height = 0, width = 0;  ///< size of the image
  bool mirrored = false;               ///< left-right, as the last step
  Colour background = {};              ///< behind transparent pixels
  Colour padding = {};                 ///< of image pixels outside the resized part
};

enum class Resampling {
  /// Bilinear with antialiasing, as Pillow and torchvision: triangle filters around (i + 1/2) scale, as wide as a pixel
  /// of the image or of the picture, whichever is wider.
  antialiased,
  /// TensorFlow 1's resize_bilinear without align_corners: interpolates between the pixel at floor(i scale) and the
  /// next.
  top_left_aligned,
};

struct CropRule {
  enum class Kind { torchvision, tensorflow };
  Kind kind = Kind::torchvision;
  double min_area = 0.08, max_area = 1.0;               ///< share of the area of the picture
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  ///< width / height; torchvision: log-uniform
};

/// Draws a random part of a picture. The rule torchvision makes 10 tries and then uses the largest centred part within
/// the ratios. The rule tensorflow makes 100 tries for a part with at least a tenth of the pixels (min_object_covered)
/// and then uses the whole picture.
PictureBox random_part(const PictureInfo& picture, const CropRule& rule, PhiloxDraws& draws);

/// The centre crop of `height` x `width` after resizing the shorter side of the picture to `shorter` pixels. `shorter`
/// is at least the longer side of the image. The other side is scaled in proportion and rounded down. If the centre
/// lies between two positions, the even position is used, as in torchvision.
PictureView central_view(const PictureInfo& picture, std::int64_t shorter, std::int64_t height, std::int64_t width);

/// The view of a whole picture for an evaluation. Fit::crop: as central_view; the other rules ignore `shorter`.
/// Fit::pad: as Pillow's ImageOps.pad.
PictureView fitted_view(const PictureInfo& picture, Fit fit, std::int64_t shorter, std::int64_t height,
                        std::int64_t width);

/// The view of a random part of a picture as an image of `height` x `width`. Fit::crop: the part is that of
/// random_part. Otherwise the part is drawn from the padded or stretched picture; a padded part shows as much of the
/// picture as its size allows.
PictureView random_view(const PictureInfo& picture, Fit fit, const CropRule& rule, PhiloxDraws& draws,
                        std::int64_t height, std::int64_t width);

/// Memory for decoding and resizing, which is reused for the next picture.
struct ViewMemory {
  DecodedPart part;
  std::vector<float> row;
};

/// Writes the view of a JPEG or PNG file to `planes`: [3][height][width], red, green, blue. The result has the same
/// bits on all processors. Errors: as decode_part.
void render_view(std::span<const std::uint8_t> file, const PictureView& view, Resampling resampling, ViewMemory& memory,
                 std::span<std::uint8_t> planes);

/// As render_view, but writes the layout [height][width][3].
void render_pixels(std::span<const std::uint8_t> file, const PictureView& view, Resampling resampling,
                   ViewMemory& memory, std::span<std::uint8_t> pixels);

}  // namespace carillon
