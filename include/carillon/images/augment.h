// Augment: random changes of a decoded training image: flips and quarter turns, colour jitter, RandAugment, random
// erasing.
//
// RandAugment: Cubuk, Zoph, Shlens, Le, "RandAugment: Practical automated data augmentation with a reduced search
// space", 2020. The 14 ops, their ranges and their rounding equal torchvision.transforms.RandAugment for Pillow images
// (nearest neighbour, black fill, 31 magnitudes). Random erasing: Zhong, Zheng, Kang, Li, Yang, "Random erasing data
// augmentation", 2017, as torchvision.transforms.RandomErasing with its default area (0.02 to 0.33 of the image) and
// ratio (0.3 to 3.3).
//
// An image is planes [3][height][width]: red, green, blue. These functions have no errors.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/core/philox.h"
#include "carillon/images/decode.h"

namespace carillon {

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
  std::span<std::uint8_t> planes;
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t>& scratch;
};

/// Applies an op. `negative`: apply it in the opposite direction; only for shears, translations, rotation, brightness,
/// color, contrast and sharpness.
void apply(AugmentOp op, std::int64_t magnitude, bool negative, const AugmentedImage& image);

/// Draws and applies the ops.
void rand_augment(const RandAugment& settings, PhiloxDraws& draws, const AugmentedImage& image);

/// Flips half of the images top-bottom (`flips`), and turns each by 0 to 3 quarter turns (`turns`; square images only).
void random_orientation(bool flips, bool turns, PhiloxDraws& draws, const AugmentedImage& image);

/// Multiplies brightness, contrast and saturation by random factors from 1 - strength to 1 + strength, in random order.
/// Equals torchvision.transforms.ColorJitter(strength, strength, strength) for Pillow images. `strength`: 0 to 1.
void color_jitter(double strength, PhiloxDraws& draws, const AugmentedImage& image);

/// Draws the box to erase in at most 10 tries. If no box fits, the height of the result is 0.
PictureBox erased_box(std::int64_t height, std::int64_t width, PhiloxDraws& draws);

/// With this probability, sets a random box to `fill`.
void random_erasing(double probability, const Colour& fill, PhiloxDraws& draws, const AugmentedImage& image);

}  // namespace carillon
