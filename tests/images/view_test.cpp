// Tests views: compares resizing with Pillow and TensorFlow, and random crops with torchvision's RandomResizedCrop.
#include "carillon/images/view.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>

#include "src/images/picture.h"
#include "tests/images/fixtures.h"

namespace carillon {
namespace {

struct Resize {
  PictureBox part;
  std::int64_t height, width;
};
constexpr std::array resizes{Resize{{0, 0, 33, 45}, 16, 16}, Resize{{3, 5, 20, 31}, 24, 24},
                             Resize{{7, 0, 26, 17}, 60, 41}, Resize{{10, 40, 1, 1}, 5, 5},
                             Resize{{0, 0, 33, 45}, 33, 45}, Resize{{1, 2, 32, 40}, 3, 4}};

PictureView view_of(const Resize& resize) {
  return {.part = resize.part,
          .resized_height = resize.height,
          .resized_width = resize.width,
          .height = resize.height,
          .width = resize.width};
}

std::vector<std::uint8_t> rendered(const std::vector<std::uint8_t>& file, const PictureView& view,
                                   Resampling resampling) {
  ViewMemory memory;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(view.height * view.width * 3));
  render_view(file, view, resampling, memory, pixels);
  return pixels;
}

/// Expects that the first `count` elements of `resizes` produce the pixels in the file `name`, except for rounding.
void expect_resized_as(const std::string& name, std::size_t count, Resampling resampling) {
  const std::vector<std::uint8_t> file = picture_file("colour.png"), all = picture_file(name);
  std::span<const std::uint8_t> expected = all;
  for (const Resize& resize : std::span(resizes).first(count)) {
    const std::vector<std::uint8_t> pixels = rendered(file, view_of(resize), resampling);
    const Difference found = difference(pixels, expected.first(pixels.size()));
    EXPECT_LE(found.largest, 1) << resize.height << " x " << resize.width;
    EXPECT_LE(found.mean, 0.15) << resize.height << " x " << resize.width;
    expected = expected.subspan(pixels.size());
  }
  EXPECT_TRUE(expected.empty());
}

TEST(View, IsResizedAsByPillow) { expect_resized_as("resized.u8", resizes.size(), Resampling::antialiased); }
TEST(View, IsResizedAsByTensorflow) { expect_resized_as("corner.u8", 4, Resampling::top_left_aligned); }

TEST(View, OfPartOfTheResizedPictureIsThatPart) {
  const std::vector<std::uint8_t> file = picture_file("colour.png");
  const PictureView whole = view_of({{2, 3, 30, 40}, 45, 60});
  PictureView part = whole;
  part.row = 11;
  part.column = 17;
  part.height = 20;
  part.width = 9;
  for (const Resampling resampling : {Resampling::antialiased, Resampling::top_left_aligned}) {
    const std::vector<std::uint8_t> all = rendered(file, whole, resampling), some = rendered(file, part, resampling);
    for (std::int64_t y = 0; y < part.height; ++y) {
      const auto row = all.begin() + ((y + part.row) * whole.width + part.column) * 3;
      EXPECT_TRUE(std::equal(row, row + part.width * 3, some.begin() + y * part.width * 3)) << y;
    }
  }
}

TEST(View, IsMirroredWhereAsked) {
  const std::vector<std::uint8_t> file = picture_file("colour.jpg");
  PictureView view = view_of(resizes[1]);
  const std::vector<std::uint8_t> pixels = rendered(file, view, Resampling::antialiased);
  for (const bool mirrored : {false, true}) {
    view.mirrored = mirrored;
    const std::vector<std::uint8_t> found = rendered(file, view, Resampling::antialiased);
    for (std::int64_t i = 0; i < view.height * view.width; ++i) {
      const std::int64_t y = i / view.width, x = i % view.width, from = mirrored ? view.width - 1 - x : x;
      for (std::int64_t c = 0; c < 3; ++c) {
        ASSERT_EQ(found[static_cast<std::size_t>(i * 3 + c)],
                  pixels[static_cast<std::size_t>((y * view.width + from) * 3 + c)]);
      }
    }
  }
}

/// If the decoder reduces a picture to half its size, the view must be nearly equal to the view of the whole picture.
TEST(View, OfAPictureThatComesSmallerIsNearlyTheSame) {
  Picture picture{.height = 480, .width = 640, .channels = 3, .pixels = {}};
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const double wave = std::sin(static_cast<double>(x) / 9.0) * std::cos(static_cast<double>(y) / 13.0);
      for (const double value : {128.0 + 100.0 * wave, static_cast<double>(x) * 0.39, static_cast<double>(y) * 0.5}) {
        picture.pixels.push_back(static_cast<std::uint8_t>(value));
      }
    }
  }
  const std::string jpeg = encode_jpeg(picture, 95);
  DecodedPart whole;
  decode_whole(bytes_of(jpeg), whole);
  const Picture decoded{.height = 480, .width = 640, .channels = 3, .pixels = rgb_of(whole)};
  const std::string png = encode_png(decoded);  // the decoder does not reduce PNG files
  for (const PictureView& view : {view_of({{0, 0, 480, 640}, 224, 224}), view_of({{17, 33, 301, 407}, 100, 90}),
                                  view_of({{200, 300, 128, 128}, 16, 16})}) {
    const auto from_jpeg = rendered({jpeg.begin(), jpeg.end()}, view, Resampling::antialiased);
    const auto from_png = rendered({png.begin(), png.end()}, view, Resampling::antialiased);
    EXPECT_LE(difference(from_jpeg, from_png).mean, 2.0) << view.height;
  }
}

/// Returns `decoded` as a PNG file.
std::vector<std::uint8_t> png_of(const DecodedPart& decoded) {
  const std::string png =
      encode_png({.height = decoded.height, .width = decoded.width, .channels = 3, .pixels = rgb_of(decoded)});
  return {png.begin(), png.end()};
}

TEST(View, OfAnOrientedPictureIsThatOfThePictureAsItIsShown) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto jpeg = picture_file(fmt::format("oriented_{}.jpg", orientation));
    DecodedPart shown;
    decode_whole(jpeg, shown);
    const std::vector<std::uint8_t> png = png_of(shown);
    PictureView view = view_of({{2, 1, 10, 11}, 9, 8});
    for (const Resampling resampling : {Resampling::antialiased, Resampling::top_left_aligned}) {
      for (const bool mirrored : {false, true}) {
        view.mirrored = mirrored;
        EXPECT_EQ(rendered(jpeg, view, resampling), rendered(png, view, resampling)) << orientation;
      }
    }
  }
}

/// The sides are not divisible by the reduction factor. So if the orientation reverses a side, the reduced side begins
/// with an incomplete pixel.
TEST(View, OfAnOrientedPictureThatComesSmallerIsNearlyTheSame) {
  Picture picture{.height = 237, .width = 317, .channels = 3, .pixels = {}};
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      for (const std::int64_t value : {x * 255 / 317, y * 255 / 237, (x + y) * 255 / 554}) {
        picture.pixels.push_back(static_cast<std::uint8_t>(value));
      }
    }
  }
  const std::string jpeg = encode_jpeg(picture, 98);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::vector<std::uint8_t> oriented = with_orientation(jpeg, orientation);
    DecodedPart shown;
    decode_whole(oriented, shown);
    const std::vector<std::uint8_t> png = png_of(shown);
    for (const PictureView& view :
         {view_of({{0, 0, shown.height, shown.width}, 24, 25}), view_of({{5, 11, 200, 203}, 20, 21})}) {
      const auto small = rendered(oriented, view, Resampling::antialiased);
      EXPECT_LE(difference(small, rendered(png, view, Resampling::antialiased)).mean, 0.6) << orientation;
    }
  }
}

TEST(View, TransparentPixelsShowTheBackground) {
  PictureView view = view_of({{0, 0, 4, 4}, 4, 4});  // this part of the picture is transparent
  EXPECT_THAT(rendered(picture_file("transparent.png"), view, Resampling::antialiased), testing::Each(255));
  view.background = {.red = 7, .green = 7, .blue = 7};
  EXPECT_THAT(rendered(picture_file("transparent.png"), view, Resampling::antialiased), testing::Each(7));
}

TEST(View, InTheMiddleKeepsThePicturesProportions) {
  const PictureView view = central_view({.height = 375, .width = 500}, 256, 224, 224);
  EXPECT_EQ(view.resized_height, 256);
  EXPECT_EQ(view.resized_width, 341);
  EXPECT_EQ(view.row, 16);
  EXPECT_EQ(view.column, 58);
  EXPECT_EQ(central_view({.height = 256, .width = 343}, 256, 224, 224).column, 60) << "59.5, as torchvision rounds it";
  const PictureView thin = central_view({.height = 1, .width = 60000}, 256, 224, 224);
  EXPECT_EQ(thin.resized_height, 256);
  EXPECT_EQ(thin.column, (256 * 60000 - 224) / 2);
}

TEST(View, OfAThinPictureIsOne) {
  const Picture line{.height = 1, .width = 3000, .channels = 1, .pixels = std::vector<std::uint8_t>(3000, 9)};
  const std::string file = encode_png(line);
  const PictureView view = central_view(picture_info(bytes_of(file)), 256, 224, 224);
  for (const Resampling resampling : {Resampling::antialiased, Resampling::top_left_aligned}) {
    const auto pixels = rendered({file.begin(), file.end()}, view, resampling);
    EXPECT_TRUE(std::ranges::all_of(pixels, [](std::uint8_t value) { return value == 9; }));
  }
}

/// Returns a PNG file in which all pixels have the grey level `level`.
std::vector<std::uint8_t> grey_file(std::int64_t height, std::int64_t width, std::uint8_t level) {
  Picture picture{.height = height, .width = width, .channels = 1, .pixels = {}};
  picture.pixels.assign(static_cast<std::size_t>(height * width), level);
  const std::string file = encode_png(picture);
  return {file.begin(), file.end()};
}

TEST(View, APaddedPictureIsWholeBetweenBars) {
  PictureView view = fitted_view({.height = 30, .width = 60}, Fit::pad, 0, 24, 24);
  EXPECT_EQ(view.resized_height, 12);
  EXPECT_EQ(view.resized_width, 24);
  view.padding = {.red = 1, .green = 2, .blue = 3};
  const std::vector<std::uint8_t> pixels = rendered(grey_file(30, 60, 200), view, Resampling::antialiased);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t row = i / (24 * 3);
    const auto bar = static_cast<std::uint8_t>(i % 3 + 1);
    ASSERT_EQ(pixels[i], row >= 6 && row < 18 ? 200 : bar) << i;
  }
}

TEST(View, ASquashedPictureIsWhole) {
  const PictureView view = fitted_view({.height = 30, .width = 60}, Fit::squash, 0, 24, 16);
  EXPECT_EQ(view.part.height, 30);
  EXPECT_EQ(view.part.width, 60);
  EXPECT_EQ(view.resized_height, 24);
  EXPECT_EQ(view.resized_width, 16);
}

TEST(View, RandomPartsOfASquareAreTheSameForAllFits) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    std::set<std::vector<std::int64_t>> views;
    for (const Fit fit : {Fit::crop, Fit::pad, Fit::squash}) {
      PhiloxDraws draws(7, RandomPurpose::cropping, i);
      const PictureView view = random_view({.height = 50, .width = 50}, fit, {}, draws, 24, 24);
      views.insert({view.part.row, view.part.column, view.part.height, view.part.width, view.resized_height, view.row});
    }
    EXPECT_EQ(views.size(), 1u) << i;
  }
}

TEST(View, RandomPartsOfAnExtendedPictureAreWithinIt) {
  for (const PictureInfo& picture : {PictureInfo{.height = 10, .width = 90}, PictureInfo{.height = 300, .width = 2}}) {
    for (std::uint64_t i = 0; i < 2000; ++i) {
      for (const Fit fit : {Fit::pad, Fit::squash}) {
        PhiloxDraws draws(7, RandomPurpose::cropping, i);
        const PictureView view = random_view(picture, fit, {}, draws, 24, 20);
        const PictureBox& part = view.part;
        ASSERT_TRUE(part.row >= 0 && part.height > 0 && part.row + part.height <= picture.height);
        ASSERT_TRUE(part.column >= 0 && part.width > 0 && part.column + part.width <= picture.width);
        ASSERT_TRUE(view.row <= 0 && view.row + view.height >= view.resized_height) << view.row;
        ASSERT_TRUE(view.column <= 0 && view.column + view.width >= view.resized_width) << view.column;
        ASSERT_GE(view.resized_height, 1);
        ASSERT_GE(view.resized_width, 1);
        if (fit == Fit::pad) continue;
        ASSERT_TRUE(view.row == 0 && view.resized_height == 24 && view.resized_width == 20);
      }
    }
  }
}

TEST(View, APaddedPictureIsMirroredWithItsBars) {
  const std::vector<std::uint8_t> file = grey_file(40, 10, 200);
  PictureView view{
      .part = {0, 0, 40, 10}, .resized_height = 8, .resized_width = 2, .column = -1, .height = 8, .width = 8};
  view.padding = {.red = 0, .green = 0, .blue = 0};
  const auto reds = [&] {
    const std::vector<std::uint8_t> pixels = rendered(file, view, Resampling::antialiased);
    std::vector<int> row;
    for (std::size_t i = 0; i < 8; ++i) row.push_back(pixels[3 * i]);
    return row;
  };
  EXPECT_THAT(reds(), testing::ElementsAre(0, 200, 200, 0, 0, 0, 0, 0));
  view.mirrored = true;
  EXPECT_THAT(reds(), testing::ElementsAre(0, 0, 0, 0, 0, 200, 200, 0));
}

/// Weights are rounded to integers. If a picture is reduced 500-fold, each pixel of the result is a sum with a thousand
/// small weights, and the rounding errors of the weights add up.
TEST(View, OfAWhitePictureIsWhiteHoweverMuchItIsReduced) {
  for (const std::int64_t length : {4, 20, 300, 2000}) {
    Picture white{.height = length, .width = length, .channels = 1, .pixels = {}};
    white.pixels.assign(static_cast<std::size_t>(length * length), 255);
    const std::string file = encode_png(white);
    for (const Resampling resampling : {Resampling::antialiased, Resampling::top_left_aligned}) {
      const auto pixels = rendered({file.begin(), file.end()}, view_of({{0, 0, length, length}, 4, 4}), resampling);
      EXPECT_THAT(pixels, testing::Each(255)) << length;
    }
  }
}

constexpr int draw_count = 20000;

std::vector<PictureBox> draws_of(const PictureInfo& picture, const CropRule& rule) {
  std::vector<PictureBox> parts;
  for (int i = 0; i < draw_count; ++i) {
    PhiloxDraws draws(7, RandomPurpose::cropping, static_cast<std::uint64_t>(i));
    parts.push_back(random_part(picture, rule, draws));
    const PictureBox& part = parts.back();
    EXPECT_GE(part.row, 0);
    EXPECT_GE(part.column, 0);
    EXPECT_LE(part.row + part.height, picture.height);
    EXPECT_LE(part.column + part.width, picture.width);
  }
  return parts;
}

/// Returns the quantile i/10 of `values`.
double tenth(std::vector<double>& values, int i) {
  std::ranges::sort(values);
  return values[values.size() * static_cast<std::size_t>(i) / 10];
}

TEST(RandomPart, HasTheAreasAndRatiosOfTorchvisions) {
  const std::vector<std::uint8_t> text = picture_file("crops.txt");
  std::istringstream lines(std::string(text.begin(), text.end()));
  int count = 0;
  for (std::int64_t width, height; lines >> width >> height; ++count) {
    std::vector<double> areas, ratios;
    for (const PictureBox& part : draws_of({.height = height, .width = width}, {})) {
      areas.push_back(static_cast<double>(part.height * part.width) / static_cast<double>(height * width));
      ratios.push_back(std::log(static_cast<double>(part.width) / static_cast<double>(part.height)));
    }
    for (std::vector<double>* values : {&areas, &ratios}) {
      for (int i = 1; i <= 9; ++i) {
        double expected = 0.0;
        lines >> expected;
        EXPECT_NEAR(tenth(*values, i), expected, 0.015) << width << " x " << height << ", " << i;
      }
    }
  }
  EXPECT_EQ(count, 3);
}

TEST(RandomPart, CanBeAnywhereInThePicture) {
  double row = 0.0, column = 0.0;
  for (const PictureBox& part : draws_of({.height = 375, .width = 500}, {})) {
    row += (static_cast<double>(part.row) + 0.5 * static_cast<double>(part.height)) / 375.0 / draw_count;
    column += (static_cast<double>(part.column) + 0.5 * static_cast<double>(part.width)) / 500.0 / draw_count;
  }
  EXPECT_NEAR(row, 0.5, 0.01);
  EXPECT_NEAR(column, 0.5, 0.01);
}

TEST(RandomPart, OfTensorflowKeepsToItsBounds) {
  const CropRule rule{
      .kind = CropRule::Kind::tensorflow, .min_area = 0.05, .max_area = 1.0, .min_ratio = 0.75, .max_ratio = 1.33};
  double mean_ratio = 0.0;
  for (const PictureBox& part : draws_of({.height = 375, .width = 500}, rule)) {
    const double ratio = static_cast<double>(part.width) / static_cast<double>(part.height);
    const bool is_whole = part.height == 375 && part.width == 500;
    EXPECT_GE(static_cast<double>(part.height * part.width), 0.1 * 375 * 500);
    if (!is_whole) {
      EXPECT_GE(ratio, 0.75 * 0.98);
      EXPECT_LE(ratio, 1.33 * 1.02);
    }
    mean_ratio += ratio / draw_count;
  }
  EXPECT_NEAR(mean_ratio, (0.75 + 1.33) / 2, 0.02);
}

}  // namespace
}  // namespace carillon
