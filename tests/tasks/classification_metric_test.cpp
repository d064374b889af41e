#include "src/tasks/classification_metric.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "src/tasks/classification.h"
#include "tests/support/failure.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ClassificationDetails all_details{.has_confusion_matrix = true, .has_predictions = true};

void add(Metric& metric, const std::vector<float>& logits, const std::vector<std::int32_t>& labels) {
  metric.add(logits, std::as_bytes(std::span(labels)));
}

/// Adds samples of three classes. Sample i has label labels[i], and the network predicts class predicted[i].
void add_predicted(Metric& metric, const std::vector<std::int32_t>& labels, const std::vector<std::size_t>& predicted) {
  std::vector<float> outputs(labels.size() * 3, -1.0f);
  for (std::size_t i = 0; i < labels.size(); ++i) outputs[i * 3 + predicted[i]] = -0.5f;
  add(metric, outputs, labels);
}

struct Samples {
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
};

void add(Metric& metric, const Samples& samples) { add(metric, samples.logits, samples.labels); }

Samples part(const Samples& all, std::size_t begin, std::size_t end) {
  const std::size_t classes = all.logits.size() / all.labels.size();
  const auto at = [](const auto& values, std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  return {{at(all.logits, begin * classes), at(all.logits, end * classes)},
          {at(all.labels, begin), at(all.labels, end)}};
}

/// Makes the same samples as tests/data/samples/make_class_scores.py.
Samples random_samples(std::uint32_t classes, int count) {
  std::uint32_t state = classes;
  const auto draw = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
  Samples samples;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t label = draw() % classes;
    const std::size_t first = samples.logits.size();
    for (std::uint32_t c = 0; c < classes; ++c)
      samples.logits.push_back(static_cast<float>(draw()) / 2097152.0f - 4.0f);
    samples.logits[first + label] += static_cast<float>(draw() % 2) * 4.0f;
    samples.labels.push_back(static_cast<std::int32_t>(label));
  }
  return samples;
}

std::map<std::string, double> values_of(const Metric& metric) {
  std::map<std::string, double> values;
  for (const Score& score : metric.scores()) values[score.logged_as()] = score.value;
  return values;
}

TEST(ClassificationMetric, CountsTheSamplesWhoseLargestOutputIsTheTrueClass) {
  ClassificationMetric metric(3, all_details);
  add_predicted(metric, {0, 1, 2}, {0, 2, 2});
  add_predicted(metric, {}, {});
  add_predicted(metric, {1}, {0});
  EXPECT_EQ(metric.text(), "precision @ 1 = 0.500 (2/4)");
  EXPECT_EQ(metric.accuracy().correct, 2);
  EXPECT_EQ(metric.accuracy().total, 4);
  const Score score = metric.scores().at(0);
  EXPECT_EQ(score.name, "accuracy");
  EXPECT_EQ(score.value, 0.5);
  EXPECT_EQ(score.logged_as(), "precision");
  EXPECT_EQ(score.tagged_as(), "precision @ 1");
  EXPECT_EQ(score.ratio.value().part, 2);
  EXPECT_EQ(score.ratio.value().whole, 4);
  EXPECT_THAT(metric.confusion_matrix().row(0), ElementsAre(1, 0, 0));
  EXPECT_THAT(metric.confusion_matrix().row(1), ElementsAre(1, 0, 1));
  EXPECT_THAT(metric.confusion_matrix().row(2), ElementsAre(0, 0, 1));
}

TEST(ClassificationMetric, OfEqualOutputsTakesTheFirst) {
  ClassificationMetric metric(3);
  add(metric, {0.0f, 7.0f, 7.0f, 0.0f, 7.0f, 7.0f}, {1, 2});
  EXPECT_EQ(metric.accuracy().correct, 1);
}

TEST(ClassificationMetric, EqualsScikitLearnAndTorchmetrics) {
  std::ifstream file(CARILLON_TEST_SAMPLES "/class_scores.txt");
  std::map<std::string, double> values;
  std::uint32_t classes = 0;
  int compared = 0;
  std::string name;
  for (double value = 0.0; file >> name >> value;) {
    if (name == "classes") {
      classes = static_cast<std::uint32_t>(value);
    } else if (name == "samples") {
      ClassificationMetric found(classes);
      add(found, random_samples(classes, static_cast<int>(value)));
      values = values_of(found);
      EXPECT_EQ(values.size(), classes > 5 ? 6u : 5u);
    } else {
      // torchmetrics computes in float32, so its calibration error is less exact.
      EXPECT_NEAR(values.at(name), value, name == "calibration_error" ? 1e-6 : 1e-14)
          << classes << " classes: " << name;
      compared += 1;
    }
  }
  EXPECT_EQ(compared, 21);
}

TEST(ClassificationMetric, DoesNotDependOnTheOrderOfSamplesAndRanks) {
  const Samples samples = random_samples(10, 400);
  // The details contain no predictions, because merging in another order would change their order.
  const ClassificationDetails details{.has_confusion_matrix = true};
  ClassificationMetric all(10, details), merged(10, details);
  add(all, samples);
  for (const auto& [begin, end] : {std::pair(300, 400), std::pair(0, 1), std::pair(1, 1), std::pair(1, 300)}) {
    ClassificationMetric rank(10, details);
    add(rank, part(samples, static_cast<std::size_t>(begin), static_cast<std::size_t>(end)));
    merged.merge(rank.contents());
  }
  EXPECT_EQ(merged.contents(), all.contents());
  EXPECT_EQ(values_of(merged), values_of(all));
}

TEST(ClassificationMetric, MergesTheSamplesOfRanksInTheirOrder) {
  const Samples samples = random_samples(10, 100);
  ClassificationMetric all(10, all_details), merged(10, all_details);
  add(all, samples);
  for (const auto& [begin, end] : {std::pair(0, 30), std::pair(30, 30), std::pair(30, 100)}) {
    ClassificationMetric rank(10, all_details);
    add(rank, part(samples, static_cast<std::size_t>(begin), static_cast<std::size_t>(end)));
    merged.merge(rank.contents());
  }
  EXPECT_EQ(merged.contents(), all.contents());
  EXPECT_EQ(merged.predictions().samples.size(), 100u);
}

TEST(ClassificationMetric, CountsTheFifthClassAndNotTheSixth) {
  ClassificationMetric found(7);
  add(found, Samples{{6, 5, 4, 3, 2, 1, 0, 6, 5, 4, 3, 2, 1, 0}, {4, 5}});
  EXPECT_EQ(found.top_5(), 0.5);
}

TEST(ClassificationMetric, OfEqualOutputsTheFirstIsAhead) {
  ClassificationMetric found(7);
  add(found, Samples{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 5}});
  EXPECT_EQ(found.top_5(), 0.5);
}

TEST(ClassificationMetric, HasNoTop5IfAllOrderingsAreRight) {
  EXPECT_EQ(ClassificationMetric(5).top_5(), std::nullopt);
  EXPECT_EQ(values_of(ClassificationMetric(5)).count("top_5"), 0u);
  EXPECT_EQ(values_of(ClassificationMetric(6)).count("top_5"), 1u);
  EXPECT_THAT(ClassificationMetric(5).other_texts().at(0), ::testing::StartsWith("balanced accuracy"));
}

TEST(ClassificationMetric, PutsAConfidenceOnTheEdgeIntoTheLowerBin) {
  Calibration calibration;
  calibration.add(1.0, true);
  calibration.add(std::nextafter(14.0 / 15.0, 0.0), false);
  calibration.add(1e-300, true);
  calibration.add(0.2, false);  // this value is on the upper edge of bin 2
  const auto count = [&](std::size_t bin) { return calibration.bins().at(bin).count; };
  EXPECT_EQ(count(14), 1);
  EXPECT_EQ(count(13), 1);
  EXPECT_EQ(count(2), 1);
  EXPECT_EQ(count(0), 1);
  EXPECT_NEAR(calibration.error(), (0.0 + 14.0 / 15.0 + 1.0 + 0.2) / 4.0, 1e-8);
}

TEST(ClassificationMetric, HasContentsThatGrowWithTheSamplesAndNotWithTheClasses) {
  const auto bytes = [](std::size_t classes) {
    ClassificationMetric found(classes, all_details);
    for (int i = 0; i < 2; ++i) add(found, Samples{std::vector<float>(classes), {1}});
    return found.contents().size();
  };
  EXPECT_EQ(bytes(1000), bytes(10));
}

TEST(ClassificationMetric, IsTheMetricOfAClassification) {
  const std::unique_ptr<Metric> found = classification_task({.classes = 10}).make_metric();
  add(*found, random_samples(10, 500));
  std::vector<std::string> names;
  for (const Score& score : found->scores()) names.push_back(score.logged_as());
  EXPECT_THAT(names, ElementsAre("precision", "loss", "top_5", "balanced_accuracy", "macro_f1", "calibration_error"));
  EXPECT_EQ(found->text(), "precision @ 1 = 0.372 (186/500)");
  EXPECT_THAT(found->other_texts(),
              ElementsAre("top-5 = 0.7340, balanced accuracy = 0.3693, macro F1 = 0.3668, calibration error = 0.2062",
                          "cross-entropy = 2.4522"));
}

// numpy 2.0, float64:
//   x = np.array([[1, 2, 3], [0.5, -1, 0.25], [100, -100, 0], [-3, -3, -3]], np.float32).astype(np.float64)
//   c = [2, 0, 1, 1]; np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) - (x - x.max(1, keepdims=True))[range(4), c]
TEST(ClassificationMetric, HasTheCrossEntropyOfNumpy) {
  ClassificationMetric found(3);
  add(found, {1, 2, 3, 0.5, -1, 0.25, 100, -100, 0, -3, -3, -3}, {2, 0, 1, 1});
  EXPECT_NEAR(found.loss(), 50.5500826098786, 1e-11);
  const Score score = found.scores().at(1);
  EXPECT_EQ(score.name, "cross_entropy");
  EXPECT_EQ(score.logged_as(), "loss");
  EXPECT_EQ(score.tagged_as(), "eval_loss");
  EXPECT_EQ(score.value, found.loss());
  EXPECT_EQ(found.other_texts().at(1), "cross-entropy = 50.5501");
}

TEST(ClassificationMetric, HasAFiniteLossForAllFiniteLogits) {
  constexpr float huge = std::numeric_limits<float>::max();
  ClassificationMetric found(2);
  add(found, {huge, -huge}, {1});
  EXPECT_EQ(found.loss(), std::exp2(40.0));
}

TEST(FixedPointSum, CountsNanAsTheLargestNumber) {
  FixedPointSum sum;
  sum.add(std::nan(""));
  EXPECT_EQ(sum.value(), std::exp2(40.0));
}

TEST(ClassificationMetric, HoldsTheFiveMostProbableClassesOfEachSample) {
  ClassificationMetric found(7, all_details);
  add(found, {0, 3, 1, 3, 2, -1, 5}, {2});
  ASSERT_EQ(found.predictions().samples.size(), 1u);
  const Prediction& sample = found.predictions().samples[0];
  EXPECT_EQ(sample.label, 2);
  EXPECT_THAT(sample.classes, ElementsAre(6, 1, 3, 4, 2));
  double sum = 0.0;
  for (const double logit : {0.0, 3.0, 1.0, 3.0, 2.0, -1.0, 5.0}) sum += std::exp(logit);
  const double top[] = {5, 3, 3, 2, 1};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(sample.probabilities[i], std::exp(top[i]) / sum, 1e-15);
  EXPECT_TRUE(sample.is_mistake());
  EXPECT_EQ(found.text(), "precision @ 1 = 0.000 (0/1)");
}

TEST(ClassificationMetric, HoldsAllClassesIfThereAreFewer) {
  ClassificationMetric found(2, all_details);
  add(found, {0, 0}, {0});
  EXPECT_EQ(found.predictions().top_count(), 2u);
  EXPECT_THAT(found.predictions().samples[0].classes, ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(found.predictions().samples[0].probabilities, ElementsAre(0.5, 0.5, 0.0, 0.0, 0.0));
}

TEST(ClassificationMetric, RefusesOtherContentsAndStaysUnchanged) {
  ClassificationMetric found(10, all_details);
  add(found, random_samples(10, 3));
  const std::string contents = found.contents();
  const auto changed = [&](std::size_t i, std::int64_t value) {
    std::string bad = contents;
    bad.replace(i * sizeof value, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
    return bad;
  };
  // The rows of the classes begin at byte 51. The predictions are at the end: three times 64 bytes.
  const std::size_t predictions = contents.size() - 3 * 64;
  std::string no_class = contents, no_probability = contents;
  no_class[predictions] = 10;
  no_probability[predictions + 24 + 7] = '\x7F';
  for (const std::string& bad : {std::string(),
                                 std::string("short"),
                                 contents.substr(0, 400),
                                 contents.substr(0, contents.size() - 1),
                                 contents + "x",
                                 contents + contents,
                                 ClassificationMetric(9, all_details).contents(),
                                 ClassificationMetric(10).contents(),
                                 changed(1, -1),
                                 changed(3, -1),
                                 changed(4, std::int64_t{1} << 40),
                                 changed(50, -1),
                                 changed(50, std::int64_t{1} << 60),
                                 changed(51, 10),
                                 changed(52, -1),
                                 no_class,
                                 no_probability,
                                 changed(predictions / 8 - 1, 4),
                                 changed(predictions / 8 - 2, 0),
                                 changed(predictions / 8 - 3, 10)}) {
    EXPECT_EQ(failure_of([&] { found.merge(bad); }).code, ExitCode::failed);
  }
  EXPECT_EQ(found.contents(), contents);
  found.merge(changed(51, 9));
}

TEST(ClassificationMetric, HasOnlyTheRequestedDetails) {
  const ClassificationMetric scores(10);
  EXPECT_EQ(failure_of([&] { scores.confusion_matrix(); }).code, ExitCode::failed);
  EXPECT_EQ(failure_of([&] { scores.predictions(); }).code, ExitCode::failed);
}

Prediction prediction(std::int32_t label, std::int32_t predicted, double confidence) {
  Prediction made{.label = label};
  made.classes[0] = predicted;
  made.probabilities[0] = confidence;
  return made;
}

TEST(Predictions, AreOrderedByConfidence) {
  const std::vector<Prediction> samples{prediction(0, 1, 0.8), prediction(0, 0, 0.9), prediction(1, 0, 0.95),
                                        prediction(1, 0, 0.8), prediction(1, 1, 0.4)};
  EXPECT_THAT(most_certain_mistakes(samples, 9), ElementsAre(2, 0, 3));
  EXPECT_THAT(most_certain_mistakes(samples, 2), ElementsAre(2, 0));
  EXPECT_THAT(least_certain(samples, 3), ElementsAre(4, 0, 3));
  EXPECT_THAT(most_certain_mistakes({}, 3), IsEmpty());
}

/// Returns the confusion matrix of three classes. The last class has no samples. All samples of the middle class are
/// classified wrongly.
ConfusionMatrix counts() {
  ConfusionMatrix counts(3);
  const std::int64_t rows[3][3] = {{5, 0, 1}, {2, 0, 1}, {0, 0, 0}};
  for (std::size_t label = 0; label < 3; ++label) std::ranges::copy(rows[label], counts.row(label).begin());
  return counts;
}

TEST(ConfusionMatrix, CountsTheSamplesOfAClassAndItsPredictions) {
  const ClassCounts first = counts().of_class(0);
  EXPECT_EQ(first.support, 6);
  EXPECT_EQ(first.predicted, 7);
  EXPECT_EQ(first.correct, 5);
  EXPECT_EQ(first.precision(), 5.0 / 7.0);
  EXPECT_EQ(first.recall(), 5.0 / 6.0);
}

TEST(ConfusionMatrix, HasNoRatioOfNothing) {
  EXPECT_EQ(counts().of_class(1).precision(), std::nullopt);
  EXPECT_EQ(counts().of_class(1).recall(), 0.0);
  EXPECT_EQ(counts().of_class(2).precision(), 0.0);
  EXPECT_EQ(counts().of_class(2).recall(), std::nullopt);
}

TEST(ConfusionMatrix, HasTheAccuracyOverAllSamples) {
  EXPECT_EQ(counts().accuracy().correct, 5);
  EXPECT_EQ(counts().accuracy().total, 9);
}

}  // namespace
}  // namespace carillon::testing
