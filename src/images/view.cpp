#include "carillon/images/view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "carillon/core/error.h"
#include "src/core/resources.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

/// Draws a random integer from 0 to `last`, uniformly.
std::int64_t whole(PhiloxDraws& draws, std::int64_t last) { return draws.below(static_cast<std::uint32_t>(last + 1)); }

/// Rounds to the nearest integer. If two integers are equally near, rounds to the even integer, as Python's round and
/// C's lrint do.
std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

/// Returns a part of the given size at a random position. The size must not exceed the picture.
PictureBox placed(std::int64_t height, std::int64_t width, const PictureInfo& picture, PhiloxDraws& draws) {
  const std::int64_t row = whole(draws, picture.height - height);
  return {row, whole(draws, picture.width - width), height, width};
}

PictureBox torchvision_part(const PictureInfo& picture, const CropRule& rule, PhiloxDraws& draws) {
  const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  for (int i = 0; i < 10; ++i) {
    const double area = height * width * draws.uniform(rule.min_area, rule.max_area);
    const double ratio = std::exp(draws.uniform(std::log(rule.min_ratio), std::log(rule.max_ratio)));
    const std::int64_t w = rounded(std::sqrt(area * ratio)), h = rounded(std::sqrt(area / ratio));
    if (w > 0 && w <= picture.width && h > 0 && h <= picture.height) return placed(h, w, picture, draws);
  }
  std::int64_t h = picture.height, w = picture.width;
  if (width / height < rule.min_ratio) h = rounded(width / rule.min_ratio);
  if (width / height > rule.max_ratio) w = rounded(height * rule.max_ratio);
  return {(picture.height - h) / 2, (picture.width - w) / 2, h, w};
}

/// Does the same as GenerateRandomCrop in TensorFlow's sample_distorted_bounding_box_op.cc. If the height of the result
/// is 0, no crop was found.
PictureBox tensorflow_size(const PictureInfo& picture, const CropRule& rule, double ratio, PhiloxDraws& draws) {
  const double pixels = static_cast<double>(picture.height) * static_cast<double>(picture.width);
  const double min_area = rule.min_area * pixels, max_area = rule.max_area * pixels;
  std::int64_t height = rounded(std::sqrt(min_area / ratio)), tallest = rounded(std::sqrt(max_area / ratio));
  if (rounded(static_cast<double>(tallest) * ratio) > picture.width) {
    tallest = static_cast<std::int64_t>((static_cast<double>(picture.width) + 0.5 - 1e-7) / ratio);
  }
  tallest = std::min(tallest, picture.height);
  height = std::min(height, tallest);
  if (height < tallest) height += whole(draws, tallest - height);
  std::int64_t width = rounded(static_cast<double>(height) * ratio);
  const auto area = [&] { return static_cast<double>(width * height); };
  if (area() < min_area) width = rounded(static_cast<double>(++height) * ratio);
  if (area() > max_area) width = rounded(static_cast<double>(--height) * ratio);
  const bool fits = area() >= min_area && area() <= max_area && width <= picture.width && height <= picture.height &&
                    width > 0 && height > 0;
  return {0, 0, fits ? height : 0, width};
}

PictureBox tensorflow_part(const PictureInfo& picture, const CropRule& rule, PhiloxDraws& draws) {
  constexpr double min_covered = 0.1;
  for (int i = 0; i < 100; ++i) {
    const double ratio = draws.uniform(rule.min_ratio, rule.max_ratio);
    const PictureBox size = tensorflow_size(picture, rule, ratio, draws);
    if (size.height == 0) continue;
    const PictureBox part = placed(size.height, size.width, picture, draws);
    if (static_cast<double>(part.height * part.width) >=
        min_covered * static_cast<double>(picture.height * picture.width)) {
      return part;
    }
  }
  return {0, 0, picture.height, picture.width};
}

/// Makes the axis of one side. The pixels [begin, begin + length) of the picture are resized to `resized` pixels. Of
/// these, `count` pixels are computed, starting at `first`.
AxisRequest side(std::int64_t begin, std::int64_t length, std::int64_t resized, std::int64_t first,
                 std::int64_t count) {
  return {.begin = static_cast<double>(begin),
          .length = static_cast<double>(length),
          .lowest = begin,
          .limit = begin + length,
          .resized = resized,
          .first = first,
          .count = count};
}

/// Converts an axis from pixels of the picture to pixels of a reduced picture (DecodedPart). `reduction`: factor of the
/// reduction. `size`: length of the reduced picture.
AxisRequest reduced(AxisRequest r, std::int64_t reduction, std::int64_t padding, std::int64_t size) {
  if (reduction == 1) return r;
  const auto factor = static_cast<double>(reduction);
  r.begin = (r.begin + static_cast<double>(padding)) / factor;
  r.length /= factor;
  r.lowest = (r.lowest + padding) / reduction;
  r.limit = std::min((r.limit + padding + reduction - 1) / reduction, size);
  return r;
}

/// The range of pixels along one side of an image that shows the resized part.
struct Shown {
  std::int64_t before = 0;            ///< number of padding pixels before the shown pixels
  std::int64_t first = 0, count = 0;  ///< the shown pixels of the resized part: first pixel and number of pixels
};

/// Finds the pixels of one side of the image that show the resized part. `begin`, `length`: position and length of the
/// image in the resized part. `resized`: length of the resized part.
Shown shown(std::int64_t begin, std::int64_t length, std::int64_t resized) {
  const std::int64_t first = std::max<std::int64_t>(begin, 0), end = std::min(begin + length, resized);
  check(first < end, "an image must show some of its picture");
  return {.before = first - begin, .first = first, .count = end - first};
}

void fill(const Colour& colour, std::span<std::uint8_t> pixels) {
  const std::array levels{colour.red, colour.green, colour.blue};
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = levels[i % 3];
}

/// One side of a padded part: the range of pixels of the picture that it shows, and their position in the image.
struct PaddedSide {
  std::int64_t first = 0, count = 0;  ///< the shown pixels of the picture: first pixel and number of pixels
  std::int64_t begin = 0;             ///< position of the image among the resized pixels, at most 0
  std::int64_t resized = 0;
};

/// Shows a part of the picture as `pixels` pixels of the image. The part has `length` pixels from `begin` on, and may
/// extend beyond the `size` pixels of the picture. Moves the part until it shows as much of the picture as possible.
PaddedSide padded(std::int64_t begin, std::int64_t length, std::int64_t size, std::int64_t pixels) {
  begin = std::clamp(begin, std::min<std::int64_t>(0, size - length), std::max<std::int64_t>(0, size - length));
  const double scale = static_cast<double>(pixels) / static_cast<double>(length);
  const std::int64_t count = std::min(length, size);
  const std::int64_t resized = std::max<std::int64_t>(1, rounded(static_cast<double>(count) * scale));
  const std::int64_t before = rounded(static_cast<double>(std::max<std::int64_t>(0, -begin)) * scale);
  return {.first = std::max<std::int64_t>(0, begin),
          .count = count,
          .begin = -std::min(before, pixels - resized),
          .resized = resized};
}

PictureView padded_view(const PictureBox& part, const PictureInfo& picture, std::int64_t height, std::int64_t width) {
  const PaddedSide rows = padded(part.row, part.height, picture.height, height),
                   columns = padded(part.column, part.width, picture.width, width);
  return {.part = {rows.first, columns.first, rows.count, columns.count},
          .resized_height = rows.resized,
          .resized_width = columns.resized,
          .row = rows.begin,
          .column = columns.begin,
          .height = height,
          .width = width};
}

PictureView whole_part(const PictureBox& part, std::int64_t height, std::int64_t width) {
  return {.part = part, .resized_height = height, .resized_width = width, .height = height, .width = width};
}

/// Returns the smallest size that contains `picture` and has the aspect ratio of the image.
PictureInfo extended(const PictureInfo& picture, std::int64_t height, std::int64_t width) {
  PictureInfo canvas = picture;
  canvas.height = std::max(picture.height, (picture.width * height + width - 1) / width);
  canvas.width = std::max(picture.width, (picture.height * width + height - 1) / height);
  return canvas;
}

/// Scales a range in `size` pixels, given by `begin` and `length`, to a range in `to` pixels.
std::pair<std::int64_t, std::int64_t> scaled(std::int64_t begin, std::int64_t length, std::int64_t size,
                                             std::int64_t to) {
  const std::int64_t count = std::max<std::int64_t>(1, (length * to + size / 2) / size);
  return {std::min((begin * to + size / 2) / size, to - count), count};
}

/// Returns the position of a centred crop on one side. `margin`: length of the side minus length of the crop. If two
/// positions are equally near the centre, returns the even position, as torchvision's CenterCrop does.
std::int64_t first_of_centre(std::int64_t margin) { return margin / 2 + (margin % 4 == 3 ? 1 : 0); }

}  // namespace

PictureBox random_part(const PictureInfo& picture, const CropRule& rule, PhiloxDraws& draws) {
  return rule.kind == CropRule::Kind::torchvision ? torchvision_part(picture, rule, draws)
                                                  : tensorflow_part(picture, rule, draws);
}

PictureView central_view(const PictureInfo& picture, std::int64_t shorter, std::int64_t height, std::int64_t width) {
  check(shorter >= height && shorter >= width, "the image must be within the resized picture");
  const std::int64_t least = std::min(picture.height, picture.width);
  PictureView view{.part = {0, 0, picture.height, picture.width},
                   .resized_height = picture.height * shorter / least,
                   .resized_width = picture.width * shorter / least,
                   .height = height,
                   .width = width};
  view.row = first_of_centre(view.resized_height - height);
  view.column = first_of_centre(view.resized_width - width);
  return view;
}

PictureView fitted_view(const PictureInfo& picture, Fit fit, std::int64_t shorter, std::int64_t height,
                        std::int64_t width) {
  if (fit == Fit::crop) return central_view(picture, shorter, height, width);
  if (fit == Fit::squash) return whole_part({0, 0, picture.height, picture.width}, height, width);
  const double scale = std::min(static_cast<double>(height) / static_cast<double>(picture.height),
                                static_cast<double>(width) / static_cast<double>(picture.width));
  const auto resized = [&](std::int64_t length) {
    return std::max<std::int64_t>(1, rounded(static_cast<double>(length) * scale));
  };
  PictureView view{.part = {0, 0, picture.height, picture.width},
                   .resized_height = resized(picture.height),
                   .resized_width = resized(picture.width),
                   .height = height,
                   .width = width};
  view.row = -rounded(static_cast<double>(height - view.resized_height) / 2.0);
  view.column = -rounded(static_cast<double>(width - view.resized_width) / 2.0);
  return view;
}

PictureView random_view(const PictureInfo& picture, Fit fit, const CropRule& rule, PhiloxDraws& draws,
                        std::int64_t height, std::int64_t width) {
  if (fit == Fit::crop) return whole_part(random_part(picture, rule, draws), height, width);
  const PictureInfo canvas = extended(picture, height, width);
  PictureBox part = random_part(canvas, rule, draws);
  if (fit == Fit::pad) {
    part.row -= (canvas.height - picture.height) / 2;
    part.column -= (canvas.width - picture.width) / 2;
    return padded_view(part, picture, height, width);
  }
  std::tie(part.row, part.height) = scaled(part.row, part.height, canvas.height, picture.height);
  std::tie(part.column, part.width) = scaled(part.column, part.width, canvas.width, picture.width);
  return whole_part(part, height, width);
}

void render_view(std::span<const std::uint8_t> file, const PictureView& view, Resampling resampling, ViewMemory& memory,
                 std::span<std::uint8_t> pixels) {
  const Shown down = shown(view.row, view.height, view.resized_height),
              across = shown(view.column, view.width, view.resized_width);
  if (down.count < view.height || across.count < view.width) fill(view.padding, pixels);
  AxisRequest vertical = side(view.part.row, view.part.height, view.resized_height, down.first, down.count);
  AxisRequest horizontal = side(view.part.column, view.part.width, view.resized_width, across.first, across.count);
  ResizeAxis rows = make_axis(vertical, resampling), columns = make_axis(horizontal, resampling);
  PartRequest request{
      .needed = {rows.begin(), columns.begin(), rows.end() - rows.begin(), columns.end() - columns.begin()},
      .background = view.background};
  if (resampling == Resampling::antialiased) {  // without antialiasing, resampling reads single pixels of the picture
                                                // at full size
    request.vertical_scale = static_cast<double>(view.resized_height) / static_cast<double>(view.part.height);
    request.horizontal_scale = static_cast<double>(view.resized_width) / static_cast<double>(view.part.width);
  }
  DecodedPart& part = memory.part;
  decode_part(file, request, part);
  if (part.reduction > 1) {
    vertical = reduced(vertical, part.reduction, part.row_padding, part.row + part.height);
    vertical.lowest = std::max(vertical.lowest, part.row);
    horizontal = reduced(horizontal, part.reduction, part.column_padding, part.column + part.width);
    horizontal.lowest = std::max(horizontal.lowest, part.column);
    rows = make_axis(vertical, resampling);
    columns = make_axis(horizontal, resampling);
  }
  if (view.mirrored) mirror(columns);
  const std::int64_t before = view.mirrored ? view.width - across.before - across.count : across.before;
  resize(part, rows, columns, memory, 3 * view.width,
         pixels.subspan(static_cast<std::size_t>(3 * (down.before * view.width + before))));
  free_if_large(part.pixels);
}

}  // namespace carillon
