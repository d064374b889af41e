// Compares RandAugment and random erasing with torchvision's RandAugment and RandomErasing.
#include "carillon/images/view.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "tests/images/fixtures.h"

namespace carillon {
namespace {

constexpr std::int64_t width = 28, height = 20, pixels = width * height;
constexpr std::array<std::int64_t, 2> magnitudes{9, 20};

std::vector<std::uint8_t> copy_of(std::span<const std::uint8_t> image) { return {image.begin(), image.end()}; }

class Augment : public testing::Test {
 protected:
  AugmentedImage image(std::vector<std::uint8_t>& values) { return {values, height, width, scratch_}; }
  std::vector<std::uint8_t> applied(AugmentOp op, std::int64_t magnitude, bool negative) {
    std::vector<std::uint8_t> values = source_;
    apply(op, magnitude, negative, image(values));
    return values;
  }

  const std::vector<std::uint8_t> golden_ = picture_file("augmented.u8");
  const std::vector<std::uint8_t> source_ = copy_of(std::span(golden_).first(pixels * 3));
  std::vector<std::uint8_t> scratch_;
};

TEST_F(Augment, EachOpHasTheBitsOfTorchvisions) {
  std::span<const std::uint8_t> expected = golden_;
  for (std::size_t i = 0; i < augment_op_names.size(); ++i) {
    const auto op = static_cast<AugmentOp>(i);
    const bool is_signed = op >= AugmentOp::shear_x && op <= AugmentOp::sharpness;
    for (const std::int64_t magnitude : magnitudes) {
      for (const bool negative : {false, true}) {
        if (negative && !is_signed) continue;
        ASSERT_GE(expected.size(), 2u * pixels * 3);
        expected = expected.subspan(pixels * 3);
        EXPECT_EQ(applied(op, magnitude, negative), copy_of(expected.first(pixels * 3)))
            << augment_op_names[i] << " " << magnitude << (negative ? " negative" : "");
      }
    }
  }
  EXPECT_EQ(expected.size(), pixels * 3u);
}

TEST_F(Augment, OneColourStaysOneColour) {
  for (std::size_t i = 0; i < augment_op_names.size(); ++i) {
    const auto op = static_cast<AugmentOp>(i);
    if (op >= AugmentOp::shear_x && op <= AugmentOp::rotate) continue;  // these ops add a black border
    std::vector<std::uint8_t> values(pixels * 3, 90);
    apply(op, 18, false, image(values));
    EXPECT_EQ(std::ranges::count(values, values.front()), pixels * 3) << augment_op_names[i];
  }
}

TEST_F(Augment, OpsAreDrawnEquallyOften) {
  // The test recognises each op by the op's result with magnitude 18 and a positive or negative sign.
  const auto text_of = [](const std::vector<std::uint8_t>& bytes) { return std::string(bytes.begin(), bytes.end()); };
  std::map<std::string, std::size_t> op_of;
  for (std::size_t i = 0; i < augment_op_names.size(); ++i) {
    for (const bool negative : {false, true}) op_of[text_of(applied(static_cast<AugmentOp>(i), 18, negative))] = i;
  }
  std::map<std::size_t, int> counts;
  constexpr int draw_count = 14000;
  for (std::uint64_t position = 0; position < draw_count; ++position) {
    PhiloxDraws draws(5, RandomPurpose::rand_augment, position);
    std::vector<std::uint8_t> values = source_;
    rand_augment({.op_count = 1, .magnitude = 18}, draws, image(values));
    ASSERT_TRUE(op_of.contains(text_of(values)));
    ++counts[op_of[text_of(values)]];
  }
  EXPECT_EQ(counts.size(), augment_op_names.size());
  for (const auto& [op, count] : counts) EXPECT_NEAR(count, 1000, 130) << augment_op_names[op];
}

TEST_F(Augment, SeveralOpsFollowEachOther) {
  PhiloxDraws draws(5, RandomPurpose::rand_augment, 3), same(5, RandomPurpose::rand_augment, 3);
  std::vector<std::uint8_t> values = source_, expected = source_;
  rand_augment({.op_count = 3, .magnitude = 10}, draws, image(values));
  for (int i = 0; i < 3; ++i) rand_augment({.op_count = 1, .magnitude = 10}, same, image(expected));
  EXPECT_EQ(values, expected);
  EXPECT_NE(values, source_);
}

TEST(ErasedBox, HasTheAreasAndRatiosOfTorchvisions) {
  const std::vector<std::uint8_t> text = picture_file("erased.txt");
  std::istringstream lines(std::string(text.begin(), text.end()));
  int count = 0;
  constexpr std::uint64_t draw_count = 20000;
  for (std::int64_t rows, columns; lines >> rows >> columns; ++count) {
    std::vector<double> areas, ratios;
    double row = 0.0, column = 0.0;
    for (std::uint64_t i = 0; i < draw_count; ++i) {
      PhiloxDraws draws(7, RandomPurpose::erasing, i);
      const PictureBox box = erased_box(rows, columns, draws);
      if (box.height == 0) continue;
      ASSERT_LE(box.row + box.height, rows);
      ASSERT_LE(box.column + box.width, columns);
      areas.push_back(static_cast<double>(box.height * box.width) / static_cast<double>(rows * columns));
      ratios.push_back(std::log(static_cast<double>(box.height) / static_cast<double>(box.width)));
      row += (static_cast<double>(box.row) + 0.5 * static_cast<double>(box.height)) / static_cast<double>(rows);
      column += (static_cast<double>(box.column) + 0.5 * static_cast<double>(box.width)) / static_cast<double>(columns);
    }
    EXPECT_NEAR(row / static_cast<double>(areas.size()), 0.5, 0.01);
    EXPECT_NEAR(column / static_cast<double>(areas.size()), 0.5, 0.01);
    for (std::vector<double>* values : {&areas, &ratios}) {
      std::ranges::sort(*values);
      for (std::size_t i = 1; i <= 9; ++i) {
        double expected = 0.0;
        lines >> expected;
        const double tolerance = values == &areas ? 0.006 : 0.06;
        EXPECT_NEAR((*values)[values->size() * i / 10], expected, tolerance) << rows << " x " << columns << ", " << i;
      }
    }
  }
  EXPECT_EQ(count, 3);
}

/// All 8 orientations of a square must occur. Each of them permutes the pixels.
TEST_F(Augment, OrientationsFlipAndTurn) {
  constexpr std::int64_t side = 3;
  std::vector<std::uint8_t> square(3 * side * side);
  for (std::size_t i = 0; i < square.size(); ++i) square[i] = static_cast<std::uint8_t>(i / 3);
  const auto oriented = [&](bool flips, bool turns, std::uint64_t position) {
    std::vector<std::uint8_t> values = square;
    PhiloxDraws draws(3, RandomPurpose::orientation, position);
    random_orientation(flips, turns, draws, {values, side, side, scratch_});
    std::vector<int> found;
    for (std::size_t i = 0; i < values.size(); i += 3) {
      EXPECT_EQ(values[i], values[i + 2]);
      found.push_back(values[i]);
    }
    return found;
  };
  std::set<std::vector<int>> turned, flipped, both;
  for (std::uint64_t position = 0; position < 200; ++position) {
    turned.insert(oriented(false, true, position));
    flipped.insert(oriented(true, false, position));
    both.insert(oriented(true, true, position));
  }
  EXPECT_EQ(both.size(), 8u);
  using testing::UnorderedElementsAre;
  EXPECT_THAT(flipped,
              UnorderedElementsAre(std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8}, std::vector{6, 7, 8, 3, 4, 5, 0, 1, 2}));
  EXPECT_THAT(turned,
              UnorderedElementsAre(std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8}, std::vector{6, 3, 0, 7, 4, 1, 8, 5, 2},
                                   std::vector{8, 7, 6, 5, 4, 3, 2, 1, 0}, std::vector{2, 5, 8, 1, 4, 7, 0, 3, 6}));
}

/// Brightness and contrast keep the ratios of the colours. Saturation changes them.
TEST_F(Augment, ColorJitterChangesBrightnessContrastAndSaturation) {
  std::set<std::vector<std::uint8_t>> seen;
  for (std::uint64_t position = 0; position < 50; ++position) {
    std::vector<std::uint8_t> values = source_, grey(source_.size(), 90), same = source_;
    PhiloxDraws draws(3, RandomPurpose::color_jitter, position);
    color_jitter(0.4, draws, image(values));
    seen.insert(values);
    PhiloxDraws again(3, RandomPurpose::color_jitter, position);
    color_jitter(0.4, again, image(grey));  // in a grey picture, only the brightness can change
    EXPECT_THAT(grey, testing::Each(testing::AllOf(testing::Ge(54), testing::Le(126), testing::Eq(grey[0]))));
    color_jitter(0.0, draws, image(same));
    EXPECT_EQ(same, source_);
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST_F(Augment, ErasingFillsOneBoxWithTheGivenProbability) {
  const Colour fill{.red = 250, .green = 251, .blue = 252};  // no pixel of the source has this colour
  int erased = 0;
  constexpr int draw_count = 4000;
  for (std::uint64_t position = 0; position < draw_count; ++position) {
    PhiloxDraws draws(3, RandomPurpose::erasing, position);
    std::vector<std::uint8_t> values = source_;
    random_erasing(0.25, fill, draws, image(values));
    if (values == source_) continue;
    ++erased;
    std::int64_t count = 0, top = height, bottom = -1, left = width, right = -1;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const auto at = [&](const std::vector<std::uint8_t>& all) {
        const auto pixel = all.begin() + 3 * i;
        return std::array{pixel[0], pixel[1], pixel[2]};
      };
      if (at(values) == at(source_)) continue;
      EXPECT_THAT(at(values), testing::ElementsAre(fill.red, fill.green, fill.blue));
      ++count;
      top = std::min(top, i / width);
      bottom = std::max(bottom, i / width);
      left = std::min(left, i % width);
      right = std::max(right, i % width);
    }
    EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1));
  }
  EXPECT_NEAR(erased, 1000, 110);
}

}  // namespace
}  // namespace carillon
