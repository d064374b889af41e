#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

/// At stream position 40, mixup and cutmix draw a lambda that is close neither to 0 nor to 1.
const MixingParams mixings[] = {{.mixup = 1.0, .seed = 3}, {.cutmix = 1.0, .height = 28, .width = 20, .seed = 4}};

class SoftmaxCrossEntropy : public ::testing::Test {
 protected:
  void build(std::int64_t batch, std::int64_t classes, float smoothing = 0.0f, const MixingParams& mixing = {}) {
    build(batch, classes, {.label_smoothing = smoothing, .mixing = mixing});
  }
  void build(std::int64_t batch, std::int64_t classes, const SoftmaxCrossEntropyParams& params) {
    labels_.clear();
    for (std::int64_t b = 0; b < batch; ++b) labels_.push_back(static_cast<std::int32_t>((b * 7 + 3) % classes));
    harness_.emplace(batch);
    const Value z = harness_->input("z", {batch, classes});
    harness_->finish(softmax_cross_entropy(harness_->graph(), "loss", z, harness_->target(labels_), params));
    harness_->step().batch.first_position = 40;
  }
  std::optional<OpHarness> harness_;
  std::vector<std::int32_t> labels_;
};

TEST_F(SoftmaxCrossEntropy, ForwardEqualsTheDefinition) {
  build(9, 10);
  const double loss = harness_->forward()[0];
  double expected = 0.0;
  for (int b = 0; b < 9; ++b) {
    double sum = 0.0;
    for (int j = 0; j < 10; ++j) sum += std::exp(static_cast<double>(harness_->values("z")[b * 10 + j]));
    expected += std::log(sum) - harness_->values("z")[b * 10 + labels_[b]];
  }
  EXPECT_NEAR(loss, expected / 9, 1e-6);
}

TEST_F(SoftmaxCrossEntropy, WithoutSmoothingARowsLossIsAFloat) {
  build(1, 10);
  const auto z = harness_->values("z");
  const float largest = *std::max_element(z.begin(), z.end());
  float sum = 0.0f;
  for (const float logit : z) sum += std::exp(logit - largest);
  EXPECT_EQ(harness_->forward()[0], std::log(sum) + largest - z[labels_[0]]);
}

TEST_F(SoftmaxCrossEntropy, SmoothedLabelsAreAMixtureWithAllClasses) {
  build(9, 10, 0.2f);
  const double loss = harness_->forward()[0];
  double expected = 0.0;
  for (int b = 0; b < 9; ++b) {
    const auto z = harness_->values("z").subspan(static_cast<std::size_t>(b) * 10, 10);
    double sum = 0.0, target = 0.0;
    for (int j = 0; j < 10; ++j) {
      sum += std::exp(static_cast<double>(z[j]));
      target += (j == labels_[b] ? 0.82 : 0.02) * z[j];
    }
    expected += std::log(sum) - target;
  }
  EXPECT_NEAR(loss, expected / 9, 1e-6);
}

TEST_F(SoftmaxCrossEntropy, LabelsOfMixedImagesAreMixedAsTheseAre) {
  for (const MixingParams& mixing : mixings) {
    const double lambda = draw_mixing(mixing, 40).lambda;
    ASSERT_TRUE(lambda > 0.05 && lambda < 0.95) << lambda;
    for (const float smoothing : {0.0f, 0.2f}) {
      build(9, 10, smoothing, mixing);
      const double loss = harness_->forward()[0];
      double expected = 0.0;
      for (std::size_t b = 0; b < 9; ++b) {
        const auto z = harness_->values("z").subspan(b * 10, 10);
        std::vector<double> q(10, 0.1 * smoothing);
        q[labels_[b]] += (1.0 - smoothing) * lambda;
        q[labels_[b == 0 ? 8 : b - 1]] += (1.0 - smoothing) * (1.0 - lambda);
        double sum = 0.0;
        for (std::size_t j = 0; j < 10; ++j) sum += std::exp(static_cast<double>(z[j]));
        for (std::size_t j = 0; j < 10; ++j) expected += q[j] * (std::log(sum) - z[j]);
      }
      EXPECT_NEAR(loss, expected / 9, 1e-6);
    }
  }
}

TEST_F(SoftmaxCrossEntropy, GradientsMatchFiniteDifferences) {
  for (const float smoothing : {0.0f, 0.2f}) {
    for (const MixingParams& mixing : {MixingParams{}, mixings[0], mixings[1]}) {
      build(5, 10, smoothing, mixing);
      harness_->expect_gradients_match_differences(1e-2, 2e-3);
    }
  }
}

/// Returns one weight per class. Some weights are 0, as for classes that have no records.
std::vector<float> weights_of(std::size_t classes) {
  std::vector<float> weights;
  for (std::size_t j = 0; j < classes; ++j) weights.push_back(0.25f * static_cast<float>((j * 5 + 1) % 8));
  return weights;
}

TEST_F(SoftmaxCrossEntropy, WeighsTheTargetsOfTheClasses) {
  for (const float gamma : {0.0f, 0.5f, 2.0f}) {
    for (const float smoothing : {0.0f, 0.2f}) {
      for (const MixingParams& mixing : {MixingParams{}, mixings[0]}) {
        const std::vector<float> weights = weights_of(10);
        build(9, 10, {smoothing, mixing, weights, gamma});
        const double lambda = draw_mixing(mixing, 40).lambda, loss = harness_->forward()[0];
        double expected = 0.0;
        for (std::size_t b = 0; b < 9; ++b) {
          const auto z = harness_->values("z").subspan(b * 10, 10);
          std::vector<double> q(10, 0.1 * smoothing);
          q[labels_[b]] += (1.0 - smoothing) * lambda;
          q[labels_[b == 0 ? 8 : b - 1]] += (1.0 - smoothing) * (1.0 - lambda);
          double sum = 0.0;
          for (const float logit : z) sum += std::exp(double{logit});
          for (std::size_t j = 0; j < 10; ++j) {
            const double p = std::exp(double{z[j]}) / sum;
            expected -= weights[j] * q[j] * std::pow(1.0 - p, gamma) * std::log(p);
          }
        }
        EXPECT_NEAR(loss, expected / 9, 1e-6) << gamma << " " << smoothing << " " << lambda;
      }
    }
  }
}

TEST_F(SoftmaxCrossEntropy, WeightedGradientsMatchFiniteDifferences) {
  for (const float gamma : {0.0f, 0.5f, 1.0f, 2.0f, 5.0f}) {
    for (const float smoothing : {0.0f, 0.2f}) {
      for (const MixingParams& mixing : {MixingParams{}, mixings[0]}) {
        build(5, 10, {smoothing, mixing, weights_of(10), gamma});
        harness_->expect_gradients_match_differences(1e-2, 2e-3);
      }
    }
  }
}

TEST_F(SoftmaxCrossEntropy, WeightsOfOneChangeOnlyTheRounding) {
  for (const float smoothing : {0.0f, 0.2f}) {
    build(9, 10, smoothing, mixings[0]);
    const auto values = harness_->values("z");
    const std::vector<float> z(values.begin(), values.end());
    const float loss = harness_->forward()[0];
    harness_->backward();
    const auto gradient = harness_->gradient("z");
    const std::vector<float> expected(gradient.begin(), gradient.end());
    build(9, 10, {smoothing, mixings[0], std::vector<float>(10, 1.0f)});
    harness_->set("z", z);
    EXPECT_NEAR(harness_->forward()[0], loss, 1e-6f);
    harness_->backward();
    expect_near({harness_->gradient("z").begin(), harness_->gradient("z").end()}, expected, 1e-7);
  }
}

/// Some logits give the label a probability of almost 1 or almost 0.
TEST_F(SoftmaxCrossEntropy, WeightsAndFocalLossEqualPyTorchs) {
  const std::vector<float> z = of_pytorch("weighted_loss/z"), weights = of_pytorch("weighted_loss/weights");
  const std::vector<float> labels = of_pytorch("weighted_loss/labels");
  const auto expect_as = [&](const std::string& name, const SoftmaxCrossEntropyParams& params) {
    build(6, 5, params);
    std::ranges::copy(labels, labels_.begin());
    harness_->set("z", z);
    expect_as_pytorch(harness_->forward(), "weighted_loss/" + name + "/loss", 1e-6);
    harness_->backward();
    expect_as_pytorch(harness_->gradient("z"), "weighted_loss/" + name + "/dz", 1e-7);
  };
  expect_as("weights", {.class_weights = weights});
  expect_as("weights_smooth", {.label_smoothing = 0.2f, .class_weights = weights});
  expect_as("focal_half", {.focal_gamma = 0.5f});
  expect_as("focal", {.focal_gamma = 2.0f});
  expect_as("focal_weights", {.class_weights = weights, .focal_gamma = 2.0f});
  expect_as("focal_smooth", {.label_smoothing = 0.2f, .class_weights = weights, .focal_gamma = 1.5f});
}

TEST_F(SoftmaxCrossEntropy, FocalLossIsFiniteAtProbabilitiesOfOneAndZero) {
  for (const float gamma : {0.1f, 0.5f, 1.0f, 2.0f}) {
    for (const float logit : {10.0f, 20.0f, 60.0f, 30000.0f}) {
      build(1, 2, {.focal_gamma = gamma});
      labels_[0] = 0;
      harness_->set("z", std::vector{logit, -logit});  // so 1 - p = exp(-2 logit), except for rounding
      const double rest = std::exp(-2.0 * logit), tolerance = 1e-3 * std::pow(rest, gamma) + 1e-7 * gamma;
      EXPECT_NEAR(harness_->forward()[0], std::pow(rest, gamma) * rest, 1e-7);
      harness_->backward();
      EXPECT_NEAR(harness_->gradient("z")[0], -std::pow(rest, gamma) * (1.0 + gamma) * rest, tolerance) << logit;
      labels_[0] = 1;  // so p = exp(-2 logit)
      EXPECT_FLOAT_EQ(harness_->forward()[0], 2.0f * logit);
      harness_->backward();
      EXPECT_NEAR(harness_->gradient("z")[1], -1.0f, 1e-5f + gamma * 2.0f * logit * std::exp(-2.0f * logit));
      EXPECT_EQ(harness_->gradient("z")[0], -harness_->gradient("z")[1]);
    }
  }
}

TEST_F(SoftmaxCrossEntropy, WeightsThatCannotWorkAreRefused) {
  OpHarness harness(3);
  std::vector<std::int32_t> labels(3);
  const Value z = harness.input("z", {3, 2}), target = harness.target(labels);
  const auto add = [&](const SoftmaxCrossEntropyParams& params) {
    softmax_cross_entropy(harness.graph(), "loss", z, target, params);
  };
  EXPECT_THROW(add({.class_weights = {1.0f}}), Error);
  EXPECT_THROW(add({.class_weights = {1.0f, -1.0f}}), Error);
  EXPECT_THROW(add({.class_weights = {1.0f, std::numeric_limits<float>::infinity()}}), Error);
  EXPECT_THROW(add({.focal_gamma = -1.0f}), Error);
  EXPECT_THROW(add({.focal_gamma = std::numeric_limits<float>::quiet_NaN()}), Error);
}

TEST_F(SoftmaxCrossEntropy, ASmoothingOutsideOfItsRangeIsRefused) {
  Graph graph(1);
  EXPECT_THROW(softmax_cross_entropy(graph, "loss", {}, {}, {.label_smoothing = -0.1f}), Error);
  EXPECT_THROW(softmax_cross_entropy(graph, "loss", {}, {}, {.label_smoothing = 1.1f}), Error);
}

TEST_F(SoftmaxCrossEntropy, TargetsThatAreNoClassesAreRefused) {
  for (const TargetSpec& spec : {TargetSpec{DType::f32, {}}, TargetSpec{DType::i32, {2}}}) {
    OpHarness harness(3);
    const Value z = harness.input("z", {3, 4});
    const Value target = harness.graph().add_target(spec);
    EXPECT_THROW(softmax_cross_entropy(harness.graph(), "loss", z, target), Error);
    EXPECT_THROW(softmax_cross_entropy(harness.graph(), "loss", z, z), Error);
  }
}

TEST_F(SoftmaxCrossEntropy, LargeLogitsDoNotOverflow) {
  build(1, 2);
  harness_->set("z", std::vector{30000.0f, -30000.0f});
  labels_[0] = 1;
  EXPECT_FLOAT_EQ(harness_->forward()[0], 60000.0f);
  harness_->backward();
  EXPECT_EQ(harness_->gradient("z")[0], 1.0f);
  EXPECT_EQ(harness_->gradient("z")[1], -1.0f);
}

TEST_F(SoftmaxCrossEntropy, NotANumberInAnyPlaceReachesTheLoss) {
  for (const SoftmaxCrossEntropyParams& params :
       {SoftmaxCrossEntropyParams{}, {.class_weights = {0.0f, 0.0f, 0.0f}}, {.focal_gamma = 2.0f}}) {
    for (const int place : {0, 1, 2}) {
      build(1, 3, params);
      std::vector<float> z{1.0f, 2.0f, 3.0f};
      z[place] = std::numeric_limits<float>::quiet_NaN();
      harness_->set("z", z);
      EXPECT_TRUE(std::isnan(harness_->forward()[0])) << place;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
