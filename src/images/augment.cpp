#include "carillon/images/view.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

/// The output pixel (x, y) is the source pixel at (a x + b y + c, d x + e y + f). The coordinates are continuous.
struct Affine {
  double a, b, c, d, e, f;
};

/// Computes torch.linspace(0, end, 31)[magnitude] in float32, as PyTorch computes it with AVX2 and AVX-512.
double strength(float end, std::int64_t magnitude) {
  const float step = end / static_cast<float>(max_augment_magnitude);
  if (magnitude <= max_augment_magnitude / 2) return static_cast<double>(step * static_cast<float>(magnitude));
  return static_cast<double>(std::fma(-step, static_cast<float>(max_augment_magnitude - magnitude), end));
}

std::size_t pixel_count(const AugmentedImage& image) { return image.pixels.size() / 3; }

/// Replaces each value v of one channel by table[v].
void map(const Table& table, std::size_t channel, const AugmentedImage& image) {
  for (std::size_t i = channel; i < image.pixels.size(); i += 3) image.pixels[i] = table[image.pixels[i]];
}

std::uint8_t clipped(double value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)); }

/// Transforms the image like Pillow with nearest neighbour (Geometry.c, affine_fixed): fixed point with 16 bits of
/// fraction.
void transform(const Affine& from, const AugmentedImage& image) {
  const auto fixed = [](double value) { return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5)); };
  const std::int64_t a = fixed(from.a), b = fixed(from.b), d = fixed(from.d), e = fixed(from.e);
  std::int64_t row_x = fixed(from.c + from.a * 0.5 + from.b * 0.5), row_y = fixed(from.f + from.d * 0.5 + from.e * 0.5);
  const std::int64_t height = image.height, width = image.width;
  image.scratch.assign(image.pixels.size(), 0);
  for (std::int64_t y = 0; y < height; ++y, row_x += b, row_y += e) {
    for (std::int64_t x = 0, at_x = row_x, at_y = row_y; x < width; ++x, at_x += a, at_y += d) {
      const std::int64_t column = at_x >> 16, row = at_y >> 16;
      if (column < 0 || column >= width || row < 0 || row >= height) continue;
      std::copy_n(image.pixels.data() + 3 * (row * width + column), 3, image.scratch.data() + 3 * (y * width + x));
    }
  }
  std::ranges::copy(image.scratch, image.pixels.begin());
}

/// Returns the transform of Pillow's Image.rotate, a counter-clockwise rotation about the centre.
Affine rotation(double degrees, const AugmentedImage& image) {
  const auto rounded = [](double value) { return std::round(value * 1e15) / 1e15; };
  const double angle = -(degrees < 0.0 ? degrees + 360.0 : degrees) * std::numbers::pi / 180.0;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = static_cast<double>(image.width) / 2.0, y = static_cast<double>(image.height) / 2.0;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

/// Computes Pillow's Image.blend in single precision: first + factor * (second - first). A factor above 1 extrapolates.
class Blend {
 public:
  explicit Blend(double factor) {
    const auto way = static_cast<float>(factor);
    for (int difference = -255; difference <= 255; ++difference) {
      way_[static_cast<std::size_t>(difference + 255)] = way * static_cast<float>(difference);
    }
  }
  std::uint8_t operator()(std::uint8_t first, std::uint8_t second) const {
    const int difference = second - first;
    const float value = static_cast<float>(first) + way_[static_cast<std::size_t>(difference + 255)];
    return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
  }

 private:
  std::array<float, 511> way_{};
};

/// Returns Pillow's luma of pixel `i`: ITU-R 601-2 with 16 bits of fraction.
std::uint8_t luma(const AugmentedImage& image, std::size_t i) {
  const std::uint8_t* const pixel = image.pixels.data() + 3 * i;
  return static_cast<std::uint8_t>((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

void brightness(double factor, const AugmentedImage& image) {
  const Blend blend(factor);
  for (std::uint8_t& value : image.pixels) value = blend(0, value);
}

void color(double factor, const AugmentedImage& image) {
  const Blend blend(factor);
  for (std::size_t i = 0; i < pixel_count(image); ++i) {
    const std::uint8_t grey = luma(image, i);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      std::uint8_t& value = image.pixels[3 * i + channel];
      value = blend(grey, value);
    }
  }
}

void contrast(double factor, const AugmentedImage& image) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < pixel_count(image); ++i) sum += luma(image, i);
  const double mean = static_cast<double>(sum) / static_cast<double>(pixel_count(image));
  const auto grey = static_cast<std::uint8_t>(mean + 0.5);
  const Blend blend(factor);
  for (std::uint8_t& value : image.pixels) value = blend(grey, value);
}

/// Blends the result of Pillow's filter SMOOTH with the image. SMOOTH has 3 x 3 weights: 5 in the middle, otherwise 1.
/// It does not change pixels at the border.
void sharpness(double factor, const AugmentedImage& image) {
  const Blend blend(factor);
  image.scratch.assign(image.pixels.begin(), image.pixels.end());
  const std::int64_t row = 3 * image.width;
  for (std::int64_t y = 1; y + 1 < image.height; ++y) {
    for (std::int64_t at = y * row + 3; at < (y + 1) * row - 3; ++at) {
      const std::uint8_t* const source = image.scratch.data() + at;
      int sum = 4 * source[0];
      for (const std::int64_t line : {-row, std::int64_t{0}, row})
        sum += source[line - 3] + source[line] + source[line + 3];
      const auto smooth = static_cast<std::uint8_t>((2 * sum + 13) / 26);  // sum / 13, rounded; no sum is exactly
                                                                           // between two integers
      image.pixels[static_cast<std::size_t>(at)] = blend(smooth, source[0]);
    }
  }
}

void posterize(std::int64_t magnitude, const AugmentedImage& image) {
  const auto bits = 8 - std::lrint(static_cast<double>(magnitude) / 7.5);
  const auto mask = static_cast<std::uint8_t>(~((1 << (8 - bits)) - 1));
  for (std::uint8_t& value : image.pixels) value &= mask;
}

void solarize(std::int64_t magnitude, const AugmentedImage& image) {
  const double threshold = 255.0 - 8.5 * static_cast<double>(magnitude);
  for (std::uint8_t& value : image.pixels) {
    if (static_cast<double>(value) >= threshold) value = static_cast<std::uint8_t>(255 - value);
  }
}

Histogram histogram(std::size_t channel, const AugmentedImage& image) {
  Histogram counts{};
  for (std::size_t i = channel; i < image.pixels.size(); i += 3) ++counts[image.pixels[i]];
  return counts;
}

/// Applies Pillow's ImageOps.autocontrast, without a cutoff, to one channel.
void auto_contrast(std::size_t channel, const AugmentedImage& image) {
  const Histogram counts = histogram(channel, image);
  const auto is_used = [](std::int64_t count) { return count > 0; };
  const auto lowest = std::find_if(counts.begin(), counts.end(), is_used) - counts.begin();
  const auto highest = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_used) - 1;
  if (lowest == highest) return;
  const double scale = 255.0 / static_cast<double>(highest - lowest), offset = -static_cast<double>(lowest) * scale;
  Table table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = clipped(static_cast<double>(i) * scale + offset);
  map(table, channel, image);
}

/// Applies Pillow's ImageOps.equalize to one channel.
void equalize(std::size_t channel, const AugmentedImage& image) {
  const Histogram counts = histogram(channel, image);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t count) { return count > 0; });
  const std::int64_t step = (static_cast<std::int64_t>(pixel_count(image)) - *last) / 255;
  if (step == 0) return;
  Table table{};
  std::int64_t below = step / 2;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
    below += counts[i];
  }
  map(table, channel, image);
}

bool has_direction(AugmentOp op) { return op >= AugmentOp::shear_x && op <= AugmentOp::sharpness; }

}  // namespace

void apply(AugmentOp op, std::int64_t magnitude, bool negative, const AugmentedImage& image) {
  check(magnitude >= 0 && magnitude <= max_augment_magnitude, "the magnitude of an augmentation is out of range");
  const double sign = negative ? -1.0 : 1.0;
  const double factor = 1.0 + sign * strength(0.9f, magnitude);
  // The largest translation is 150 / 331 of the side: AutoAugment moves images of 331 pixels by at most 150 pixels.
  const auto shift = [&](std::int64_t side) {
    const auto most = static_cast<float>(150.0 / 331.0 * static_cast<double>(side));
    return std::trunc(sign * strength(most, magnitude));
  };
  switch (op) {
    case AugmentOp::identity:
      return;
    case AugmentOp::shear_x:
      return transform({1.0, sign * strength(0.3f, magnitude), 0.0, 0.0, 1.0, 0.0}, image);
    case AugmentOp::shear_y:
      return transform({1.0, 0.0, 0.0, sign * strength(0.3f, magnitude), 1.0, 0.0}, image);
    case AugmentOp::translate_x:
      return transform({1.0, 0.0, -shift(image.width), 0.0, 1.0, 0.0}, image);
    case AugmentOp::translate_y:
      return transform({1.0, 0.0, 0.0, 0.0, 1.0, -shift(image.height)}, image);
    case AugmentOp::rotate:
      return transform(rotation(sign * strength(30.0f, magnitude), image), image);
    case AugmentOp::brightness:
      return brightness(factor, image);
    case AugmentOp::color:
      return color(factor, image);
    case AugmentOp::contrast:
      return contrast(factor, image);
    case AugmentOp::sharpness:
      return sharpness(factor, image);
    case AugmentOp::posterize:
      return posterize(magnitude, image);
    case AugmentOp::solarize:
      return solarize(magnitude, image);
    case AugmentOp::auto_contrast:
      for (std::size_t channel = 0; channel < 3; ++channel) auto_contrast(channel, image);
      return;
    case AugmentOp::equalize:
      for (std::size_t channel = 0; channel < 3; ++channel) equalize(channel, image);
      return;
  }
}

void rand_augment(const RandAugment& settings, PhiloxDraws& draws, const AugmentedImage& image) {
  for (std::int64_t i = 0; i < settings.op_count; ++i) {
    const auto op = static_cast<AugmentOp>(draws.below(static_cast<std::uint32_t>(augment_op_names.size())));
    const bool negative = draws.below(2) == 1;  // draws this number even if it is not needed, so that later draws do
                                                // not depend on `op`
    apply(op, settings.magnitude, negative && has_direction(op), image);
  }
}

void random_orientation(bool flips, bool turns, PhiloxDraws& draws, const AugmentedImage& image) {
  const bool flipped = draws.below(2) == 1 && flips;  // draws this number even if it is not needed, so that the turns
                                                      // do not depend on `flips`
  const std::uint32_t quarters = turns ? draws.below(4) : 0;
  const std::int64_t height = image.height, width = image.width;
  check(quarters == 0 || height == width, "a quarter turn requires a square image");
  if (!flipped && quarters == 0) return;
  image.scratch.assign(image.pixels.begin(), image.pixels.end());
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      std::int64_t row = y, column = x;
      for (std::uint32_t i = 0; i < quarters; ++i) row = std::exchange(column, height - 1 - row);
      if (flipped) row = height - 1 - row;
      std::copy_n(image.scratch.data() + 3 * (row * width + column), 3, image.pixels.data() + 3 * (y * width + x));
    }
  }
}

void color_jitter(double strength, PhiloxDraws& draws, const AugmentedImage& image) {
  using Change = void (*)(double, const AugmentedImage&);
  std::array<Change, 3> changes{brightness, contrast, color};
  for (std::uint32_t left = 3; left > 1; --left) std::swap(changes[left - 1], changes[draws.below(left)]);
  for (const Change change : changes) change(draws.uniform(1.0 - strength, 1.0 + strength), image);
}

PictureBox erased_box(std::int64_t height, std::int64_t width, PhiloxDraws& draws) {
  constexpr double min_area = 0.02, max_area = 0.33, min_ratio = 0.3, max_ratio = 3.3;  // ratio: height / width
  for (int i = 0; i < 10; ++i) {
    const double area = static_cast<double>(height * width) * draws.uniform(min_area, max_area);
    const double ratio = std::exp(draws.uniform(std::log(min_ratio), std::log(max_ratio)));
    const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * ratio)));
    const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (h >= height || w >= width) continue;
    const std::int64_t row = draws.below(static_cast<std::uint32_t>(height - h + 1));
    return {row, draws.below(static_cast<std::uint32_t>(width - w + 1)), h, w};
  }
  return {};
}

void random_erasing(double probability, const Colour& fill, PhiloxDraws& draws, const AugmentedImage& image) {
  if (draws.uniform(0.0, 1.0) >= probability) return;
  const PictureBox box = erased_box(image.height, image.width, draws);
  const std::array values{fill.red, fill.green, fill.blue};
  for (std::int64_t row = box.row; row < box.row + box.height; ++row) {
    std::uint8_t* const pixels = image.pixels.data() + 3 * (row * image.width + box.column);
    for (std::int64_t i = 0; i < 3 * box.width; ++i) pixels[i] = values[static_cast<std::size_t>(i % 3)];
  }
}

}  // namespace carillon
