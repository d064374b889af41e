#include "kernels/shared/mixing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace carillon::testing {
namespace {

constexpr int draws_count = 100000;

/// Returns the distribution function of Beta(a, a) at x. For x <= 1/2, sums the series of the incomplete beta function.
double beta_below(double a, double x) {
  if (x > 0.5) return 1.0 - beta_below(a, 1.0 - x);
  double sum = 0.0, factor = 1.0;  // (1 - a)(2 - a)...(n - a) x^n / n!
  for (int n = 0; n < 60; ++n) {
    sum += factor / (a + n);
    factor *= (n + 1 - a) * x / (n + 1);
  }
  return std::pow(x, a) * sum * std::tgamma(2.0 * a) / (std::tgamma(a) * std::tgamma(a));
}

std::vector<double> beta_draws(double a) {
  std::vector<double> values;
  PhiloxDraws draws(11, RandomPurpose::mixing, 0);
  for (int i = 0; i < draws_count; ++i) {
    const std::uint32_t u = draws.word();
    values.push_back(symmetric_beta(a, u, draws.word()));
  }
  return values;
}

class SymmetricBeta : public ::testing::TestWithParam<double> {};

TEST_P(SymmetricBeta, HasTheQuantilesOfItsDistribution) {
  const std::vector<double> values = beta_draws(GetParam());
  for (const double x : {1e-6, 0.003, 0.05, 0.2, 0.4, 0.5, 0.6, 0.9, 0.98, 0.9999}) {
    const double expected = beta_below(GetParam(), x) * draws_count;
    const auto found = std::ranges::count_if(values, [&](double value) { return value <= x; });
    const double deviation = std::sqrt(expected * (1.0 - expected / draws_count));
    EXPECT_NEAR(static_cast<double>(found), expected, 4.5 * deviation + 1e-6) << x;
  }
}

TEST_P(SymmetricBeta, HasTheMomentsOfItsDistribution) {
  const double a = GetParam();
  double mean = 0.0, variance = 0.0;
  for (const double value : beta_draws(a)) {
    EXPECT_TRUE(value >= 0.0 && value <= 1.0);
    mean += value / draws_count;
    variance += (value - 0.5) * (value - 0.5) / draws_count;
  }
  const double expected = 0.25 / (2.0 * a + 1.0), fourth = 3.0 / (16.0 * (2.0 * a + 1.0) * (2.0 * a + 3.0));
  EXPECT_NEAR(mean, 0.5, 4.5 * std::sqrt(expected / draws_count));
  EXPECT_NEAR(variance, expected, 4.5 * std::sqrt((fourth - expected * expected) / draws_count) + 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Parameters, SymmetricBeta, ::testing::Values(0.01, 0.2, 0.5, 1.0, 1.7, 8.0));

TEST(SymmetricBetaAtItsEnds, IsAtTheEndsForTheLeastParametersAndInTheMiddleForTheLargest) {
  for (const std::uint32_t u : {0u, 12345u, 1u << 31, ~0u}) {
    for (const std::uint32_t v : {0u, (1u << 30) - 1, 1u << 30, 1u << 31, ~0u}) {
      for (const double a : {5e-324, 1e-40}) {
        const double least = symmetric_beta(a, u, v);
        EXPECT_TRUE(least == 0.0 || least == 1.0) << a << ": " << least;
      }
      EXPECT_NEAR(symmetric_beta(1e30, u, v), 0.5, 1e-12);
      EXPECT_NEAR(symmetric_beta(1.7e308, u, v), 0.5, 1e-12);
    }
  }
}

TEST(Mixing, IsNothingWithoutParameters) {
  const Mixing mixing = draw_mixing({.height = 8, .width = 8}, 3);
  EXPECT_EQ(mixing.lambda, 1.0f);
  EXPECT_FALSE(mixing.cuts);
}

TEST(Mixing, IsOneOrTheOtherWhereBothAreWanted) {
  const auto cuts_of = [](double mixup, double cutmix) {
    int cuts = 0;
    for (std::uint64_t position = 0; position < 4000; ++position) {
      cuts += draw_mixing({.mixup = mixup, .cutmix = cutmix, .height = 8, .width = 8}, position).cuts;
    }
    return cuts;
  };
  EXPECT_EQ(cuts_of(0.2, 0.0), 0);
  EXPECT_EQ(cuts_of(0.0, 1.0), 4000);
  EXPECT_NEAR(cuts_of(0.2, 1.0), 2000, 4.5 * std::sqrt(1000.0));
}

TEST(Mixing, HasALambdaOfItsOwnDistributionInEitherForm) {
  double mixup_variance = 0.0, cut_mean = 0.0;
  int mixups = 0;
  constexpr int batches = 20000;
  for (std::uint64_t position = 0; position < batches; ++position) {
    const Mixing mixing = draw_mixing({.mixup = 0.2, .cutmix = 50.0, .height = 1000, .width = 1000}, position);
    (mixing.cuts ? cut_mean : mixup_variance) += mixing.cuts ? mixing.lambda : std::pow(mixing.lambda - 0.5, 2);
    mixups += !mixing.cuts;
  }
  EXPECT_NEAR(mixup_variance / mixups, 0.25 / 1.4, 0.006);
  // The box has half the area of the image, so each of its sides is s = sqrt(1/2) times the side of the image. On
  // average, (1 - s / 4)^2 of the box's area is inside the image.
  EXPECT_NEAR(cut_mean / (batches - mixups), 1.0 - 0.5 * std::pow(1.0 - std::sqrt(0.5) / 4.0, 2), 0.006);
}

/// For the same random numbers, torchvision's CutMix cuts the same box.
TEST(Mixing, CutsTheBoxOfItsLambdaAboutAPlaceInTheImage) {
  const MixingParams params{.cutmix = 1.0, .height = 12, .width = 31, .seed = 6};
  bool at_edge = false, inside = false;
  for (std::uint64_t position = 0xFFFFFF00u; position < 0x1'0000'0100u; ++position) {
    const Mixing mixing = draw_mixing(params, position);
    PhiloxDraws draws(6, RandomPurpose::mixing, position);
    draws.word();
    const std::uint32_t u = draws.word(), v = draws.word();
    const double ratio = 0.5 * std::sqrt(1.0 - symmetric_beta(1.0, u, v));
    const int x = static_cast<int>(draws.below(31)), y = static_cast<int>(draws.below(12));
    const int half_width = static_cast<int>(ratio * 31), half_height = static_cast<int>(ratio * 12);
    EXPECT_EQ(mixing.left, std::clamp(x - half_width, 0, 31));
    EXPECT_EQ(mixing.right, std::clamp(x + half_width, 0, 31));
    EXPECT_EQ(mixing.top, std::clamp(y - half_height, 0, 12));
    EXPECT_EQ(mixing.bottom, std::clamp(y + half_height, 0, 12));
    int cut = 0;
    for (int row = 0; row < 12; ++row) {
      for (int column = 0; column < 31; ++column) cut += mixing.is_cut(row, column);
    }
    EXPECT_FLOAT_EQ(mixing.lambda, static_cast<float>(1.0 - cut / (12.0 * 31.0)));
    (x + half_width > 31 || x < half_width ? at_edge : inside) = true;
  }
  EXPECT_TRUE(at_edge && inside);
}

TEST(Mixing, OfABatchDependsOnSeedAndPositionAlone) {
  const auto lambda = [](std::uint64_t seed, std::uint64_t position) {
    return draw_mixing({.mixup = 1.0, .seed = seed}, position).lambda;
  };
  EXPECT_EQ(lambda(1, 5), lambda(1, 5));
  EXPECT_NE(lambda(1, 5), lambda(2, 5));
  EXPECT_NE(lambda(1, 5), lambda(1, 6));
  EXPECT_NE(lambda(1, 5), lambda(1, 5 + (std::uint64_t{1} << 32)));
}

}  // namespace
}  // namespace carillon::testing
