#include "src/optim/update_factors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/optim/optimizer_fixture.h"

namespace carillon::testing {
namespace {

/// Uses the variables of OptimizerTest. The variable "plain" has no L2 factor.
class GradientNorms : public OptimizerTest {
 protected:
  double norm_of(int variable) const {
    const std::size_t count = parameters_->layout().count(variable);
    // The values are the same as in OptimizerTest.
    const std::vector<float> gradients = random_values(count, 1), values = random_values(count, 2);
    double squares = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      squares += std::pow(gradients[i] + double{specs_[static_cast<std::size_t>(variable)].l2_factor} * values[i], 2.0);
    }
    return std::sqrt(squares);
  }
  /// Calls build, and multiplies the L2 factor and the gradients by `factor`.
  void build_scaled(std::int64_t count, int threads, float factor) {
    const float l2_factor = std::exchange(l2_factor_, l2_factor_ * factor);
    build(count, threads);
    l2_factor_ = l2_factor;
    for (int i = 0; i < 2; ++i) {
      for (float& gradient : parameters_->gradient(i).floats()) gradient *= factor;
    }
  }
  ClippedNorm found() const { return GradientNorm(settings_, *parameters_, inputs_).of_gradients(); }
};

TEST_F(GradientNorms, IsThatOfAllGradientsWithTheirL2Part) {
  settings_.clip_norm = 2.0;
  for (const std::int64_t count : {1, 17, 1024, 100003}) {
    build(count, 2);
    const double expected = std::hypot(norm_of(0), norm_of(1));
    const ClippedNorm norm = found();
    EXPECT_NEAR(norm.norm, expected, 1e-6 * expected) << count;
    EXPECT_FLOAT_EQ(norm.factor, static_cast<float>(std::min(1.0, 2.0 / (expected + 1e-6)))) << count;
  }
}

TEST_F(GradientNorms, LeavesVariablesOutThatTheStepDoesNotTrain) {
  settings_.clip_norm = 1.0;
  settings_.groups = {{.pattern = "decayed", .frozen_until = 5}};
  for (const std::int64_t step : {4, 5}) {
    first_step_ = step;
    build(500, 1);
    const double expected = step == 4 ? norm_of(1) : std::hypot(norm_of(0), norm_of(1));
    EXPECT_NEAR(found().norm, expected, 1e-6 * expected) << step;
  }
}

TEST_F(GradientNorms, HasTheSameBitsAtAnyThreadCountAndFromAnyBlocks) {
  settings_.clip_norm = 1.0;
  double with_one = 0.0;
  for (const int threads : {1, 2, 3}) {
    build(100003, threads);
    const double norm = found().norm;
    if (threads == 1) with_one = norm;
    EXPECT_EQ(norm, with_one) << threads;
  }
  const GradientNorm norm(settings_, *parameters_, inputs_);
  std::vector<double> sums(norm.block_count());
  const std::size_t total = parameters_->layout().total();
  for (std::size_t block = sums.size(); block-- > 0;) {
    const std::size_t first = block * sum_block_floats, count = std::min(sum_block_floats, total - first);
    sums[block] = norm.square_sum(first, parameters_->gradients_and_sums().subspan(first, count));
  }
  EXPECT_EQ(norm.of_blocks(sums).norm, with_one);
}

TEST_F(GradientNorms, ThatAreNotFiniteClipNothing) {
  settings_.clip_norm = 1.0;
  build(100, 1);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    parameters_->gradient(0).floats()[7] = bad;
    EXPECT_FALSE(std::isfinite(found().norm));
    EXPECT_EQ(found().factor, 1.0f);
  }
}

TEST_F(GradientNorms, AreOneTreeOverTheBlocks) {
  settings_.clip_norm = 1.0;
  build(5 * static_cast<std::int64_t>(sum_block_floats), 1);
  const GradientNorm norm(settings_, *parameters_, inputs_);
  ASSERT_EQ(norm.block_count(), 6u) << "with the other variable";
  // The tree computes ((1e16 + 1) + (1 + 1)) + (1 + 1). In a sequential sum, each 1 would be lost.
  EXPECT_EQ(norm.of_blocks(std::vector<double>{1e16, 1, 1, 1, 1, 1}).norm, std::sqrt(1e16 + 4.0));
}

constexpr std::array rules{"sgd", "momentum", "nesterov", "adamw", "lars", "lamb"};

/// A gradient has two parts, one from the task's loss and one from L2. Clipping must multiply both parts by the
/// clipping factor.
TEST_F(GradientNorms, ClipAsIfTheGradientsWereSmaller) {
  for (const std::string_view rule : rules) {
    settings_ = {.rule = std::string(rule), .learning_rate = constant_rate(0.1), .weight_decay = 0.05};
    settings_.adam_epsilon = 0.1;  // so large that Adam's step depends on the size of the gradient
    settings_.lars_coefficient = 0.5;
    first_step_ = 0;
    for (const int threads : {1, 3}) {
      settings_.clip_norm = 0.25;
      build(50'021, threads);
      apply(1.0f);
      EXPECT_NEAR(optimizer_->gradient_norm(), std::hypot(norm_of(0), norm_of(1)), 1e-4) << rule;
      const std::vector<float> clipped = all_of(*parameters_);
      const float factor = static_cast<float>(0.25 / (optimizer_->gradient_norm() + 1e-6));
      settings_.clip_norm = 0.0;
      build_scaled(50'021, threads, factor);
      apply(1.0f);
      EXPECT_TRUE(equal_bits(all_of(*parameters_), clipped)) << rule << ", " << threads;
      build(50'021, threads);
      apply(1.0f);
      EXPECT_FALSE(equal_bits(all_of(*parameters_), clipped)) << rule;
    }
  }
}

TEST_F(GradientNorms, BelowTheLimitChangeNothing) {
  for (const std::string_view rule : rules) {
    settings_ = {.rule = std::string(rule), .learning_rate = constant_rate(0.1), .weight_decay = 0.05};
    build(5000, 1);
    apply_steps(3);
    const std::vector<float> plain = all_of(*parameters_);
    settings_.clip_norm = 1e6;
    build(5000, 1);
    apply_steps(3);
    EXPECT_TRUE(equal_bits(all_of(*parameters_), plain)) << rule;
  }
}

TEST_F(GradientNorms, OfAStepWithoutUpdateAreNotClipped) {
  settings_.clip_norm = 0.25;
  build(500, 1);
  const std::vector<float> before = all_of(*parameters_);
  apply(std::nanf(""));
  EXPECT_TRUE(equal_bits(all_of(*parameters_), before));
  EXPECT_EQ(optimizer_->gradient_norm(), 0.0);
}

}  // namespace
}  // namespace carillon::testing
