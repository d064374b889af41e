#include "src/train/loop/head_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace carillon::testing {
namespace {

/// Samples that are scattered around one centre per class, in random order.
struct Clouds {
  std::vector<float> features;
  std::vector<std::int32_t> labels;
};

Clouds clouds(std::int64_t count, std::int64_t width, std::int64_t classes, float distance) {
  std::mt19937 draws(3);
  std::normal_distribution<float> normal;
  Clouds made;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int32_t>(draws() % static_cast<unsigned>(classes));
    made.labels.push_back(label);
    for (std::int64_t k = 0; k < width; ++k) {
      made.features.push_back(5.0f + normal(draws) + (k == label ? distance : 0.0f));
    }
  }
  return made;
}

std::vector<double> logits(const LinearClassifier& fitted, const float* x, std::size_t width) {
  std::vector<double> found(fitted.biases.begin(), fitted.biases.end());
  for (std::size_t k = 0; k < width; ++k) {
    for (std::size_t c = 0; c < found.size(); ++c) {
      found[c] += static_cast<double>(x[k]) * fitted.weights[k * found.size() + c];
    }
  }
  return found;
}

TEST(FitClassifier, SeparatesClassesThatCanBeSeparated) {
  constexpr std::int64_t count = 300, width = 12, classes = 4;
  const Clouds made = clouds(count, width, classes, 8.0f);
  const LinearClassifier fitted = fit_classifier(made.features, width, made.labels, classes, [] {});
  EXPECT_GT(fitted.accuracy, 0.99);
  std::size_t correct = 0;
  for (std::size_t i = 0; i < made.labels.size(); ++i) {
    const std::vector<double> found = logits(fitted, made.features.data() + i * width, width);
    correct += std::ranges::max_element(found) - found.begin() == made.labels[i] ? 1 : 0;
  }
  EXPECT_EQ(static_cast<double>(correct) / count, fitted.accuracy) << "weights and biases are for the given features";
}

/// The biases have no L2 penalty. So at the minimum of the loss, the mean probability of each class equals the class's
/// share of the samples.
TEST(FitClassifier, GivesEachClassItsShareOfTheProbability) {
  constexpr std::size_t count = 200, width = 5, classes = 3;
  const Clouds made = clouds(count, width, classes, 1.0f);
  const LinearClassifier fitted = fit_classifier(made.features, width, made.labels, classes, [] {});
  std::vector<double> mean(classes, 0.0), share(classes, 0.0);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> found = logits(fitted, made.features.data() + i * width, width);
    double sum = 0.0;
    for (double& one : found) sum += one = std::exp(one);
    for (std::size_t c = 0; c < classes; ++c) mean[c] += found[c] / sum / count;
    share[static_cast<std::size_t>(made.labels[i])] += 1.0 / count;
  }
  for (std::size_t c = 0; c < classes; ++c) EXPECT_NEAR(mean[c], share[c], 2e-3) << c;
}

TEST(FineTuningPasses, HaveAtLeast2500Samples) {
  EXPECT_EQ(fine_tuning_passes(10'000.0, 5000), 2.0);
  EXPECT_EQ(fine_tuning_passes(5000.0, 70), 2.0);
}

TEST(FineTuningShare, IsLowInAShortTraining) {
  EXPECT_EQ(fine_tuning_share(-1.0), 0.0);
  EXPECT_EQ(fine_tuning_share(0.5), 0.0625);
  EXPECT_EQ(fine_tuning_share(2.0), 1.0);
  EXPECT_EQ(fine_tuning_share(40.0), 1.0);
}

TEST(FitClassifier, EndsWhenItsTimeIsOverAfterAtLeastOneStep) {
  constexpr std::int64_t width = 12, classes = 4;
  const Clouds made = clouds(300, width, classes, 2.0f);
  int calls = 0;
  const auto heartbeat = [&] { ++calls; };
  const double whole = fit_classifier(made.features, width, made.labels, classes, heartbeat).accuracy;
  const int calls_of_whole = std::exchange(calls, 0);
  const LinearClassifier fitted =
      fit_classifier(made.features, width, made.labels, classes, heartbeat, [] { return true; });
  EXPECT_LT(calls, calls_of_whole / 2);
  EXPECT_GT(fitted.accuracy, 0.5) << "chance: 0.25";
  EXPECT_LE(fitted.accuracy, whole + 0.05);
}

TEST(FitClassifier, CopesWithConstantFeaturesAndOneClass) {
  const std::vector<float> features(20, 7.0f);
  const std::vector<std::int32_t> labels(10, 1);
  const LinearClassifier fitted = fit_classifier(features, 2, labels, 3, [] {});
  for (const float value : fitted.weights) EXPECT_TRUE(std::isfinite(value));
  for (const float value : fitted.biases) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(fitted.accuracy, 1.0);
}

}  // namespace
}  // namespace carillon::testing
