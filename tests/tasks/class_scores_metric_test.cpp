#include "src/tasks/class_scores_metric.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>

#include "src/tasks/classification.h"
#include "src/tasks/classification_metric.h"
#include "tests/support/failure.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;

ClassScoresMetric metric(std::size_t classes) { return {classes, std::make_unique<AccuracyMetric>()}; }

struct Samples {
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
};

void add(Metric& metric, const Samples& samples) {
  metric.add(samples.logits, std::as_bytes(std::span(samples.labels)));
}

Samples part(const Samples& all, std::size_t begin, std::size_t end) {
  const std::size_t classes = all.logits.size() / all.labels.size();
  const auto at = [](const auto& values, std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  return {{at(all.logits, begin * classes), at(all.logits, end * classes)},
          {at(all.labels, begin), at(all.labels, end)}};
}

/// The samples of tests/data/samples/make_class_scores.py.
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

TEST(ClassScoresMetric, EqualsScikitLearnAndTorchmetrics) {
  std::ifstream file(CARILLON_TEST_SAMPLES "/class_scores.txt");
  std::map<std::string, double> values;
  std::uint32_t classes = 0;
  int compared = 0;
  std::string name;
  for (double value = 0.0; file >> name >> value;) {
    if (name == "classes") {
      classes = static_cast<std::uint32_t>(value);
    } else if (name == "samples") {
      ClassScoresMetric found = metric(classes);
      add(found, random_samples(classes, static_cast<int>(value)));
      values = values_of(found);
      EXPECT_EQ(values.size(), classes > 5 ? 5u : 4u);
    } else {
      // torchmetrics computes in float32.
      EXPECT_NEAR(values.at(name), value, name == "calibration_error" ? 1e-6 : 1e-14)
          << classes << " classes: " << name;
      compared += 1;
    }
  }
  EXPECT_EQ(compared, 21);
}

TEST(ClassScoresMetric, DoesNotDependOnTheOrderOfSamplesAndRanks) {
  const Samples samples = random_samples(10, 400);
  ClassScoresMetric all = metric(10), merged = metric(10);
  add(all, samples);
  for (const auto& [begin, end] : {std::pair(300, 400), std::pair(0, 1), std::pair(1, 1), std::pair(1, 300)}) {
    ClassScoresMetric rank = metric(10);
    add(rank, part(samples, static_cast<std::size_t>(begin), static_cast<std::size_t>(end)));
    merged.merge(rank.contents());
  }
  EXPECT_EQ(merged.contents(), all.contents());
  EXPECT_EQ(values_of(merged), values_of(all));
}

TEST(ClassScoresMetric, CountsTheFifthClassAndNotTheSixth) {
  ClassScoresMetric found = metric(7);
  add(found, {{6, 5, 4, 3, 2, 1, 0, 6, 5, 4, 3, 2, 1, 0}, {4, 5}});
  EXPECT_EQ(found.top_5(), 0.5);
}

TEST(ClassScoresMetric, OfEqualOutputsTheFirstIsAhead) {
  ClassScoresMetric found = metric(7);
  add(found, {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 5}});
  EXPECT_EQ(found.top_5(), 0.5);
}

TEST(ClassScoresMetric, HasNoTop5IfAllOrderingsAreRight) {
  EXPECT_EQ(metric(5).top_5(), std::nullopt);
  EXPECT_EQ(values_of(metric(5)).count("top_5"), 0u);
  EXPECT_EQ(values_of(metric(6)).count("top_5"), 1u);
  EXPECT_THAT(metric(5).other_texts()[0], ::testing::StartsWith("balanced accuracy"));
}

TEST(ClassScoresMetric, PutsAConfidenceOnTheEdgeIntoTheLowerBin) {
  Calibration calibration;
  calibration.add(1.0, true);
  calibration.add(std::nextafter(14.0 / 15.0, 0.0), false);
  calibration.add(1e-300, true);
  calibration.add(0.2, false);  // the upper edge of bin 2
  const auto count = [&](std::size_t bin) { return calibration.bins().at(bin).count; };
  EXPECT_EQ(count(14), 1);
  EXPECT_EQ(count(13), 1);
  EXPECT_EQ(count(2), 1);
  EXPECT_EQ(count(0), 1);
  EXPECT_NEAR(calibration.error(), (0.0 + 14.0 / 15.0 + 1.0 + 0.2) / 4.0, 1e-8);
}

TEST(ClassScoresMetric, HasContentsThatGrowWithTheSamplesAndNotWithTheClasses) {
  const auto bytes = [](std::size_t classes) {
    ClassScoresMetric found = metric(classes);
    add(found, {std::vector<float>(classes), {1}});
    return found.contents().size();
  };
  EXPECT_EQ(bytes(20'000), bytes(10));
}

TEST(ClassScoresMetric, IsTheMetricOfAClassification) {
  const std::unique_ptr<Metric> found = classification_task({.classes = 10}).make_metric();
  add(*found, random_samples(10, 500));
  std::vector<std::string> names;
  for (const Score& score : found->scores()) names.push_back(score.logged_as());
  EXPECT_THAT(names, ElementsAre("precision", "loss", "top_5", "balanced_accuracy", "macro_f1", "calibration_error"));
  EXPECT_EQ(found->text(), "precision @ 1 = 0.372 (186/500)");
  EXPECT_THAT(found->other_texts(),
              ElementsAre("top-5 = 0.7340, balanced accuracy = 0.3693, macro F1 = 0.3668, calibration error = 0.2062",
                          ::testing::StartsWith("cross-entropy = ")));
}

TEST(ClassScoresMetric, RefusesOtherContents) {
  ClassScoresMetric found = metric(10);
  add(found, random_samples(10, 3));
  const std::string contents = found.contents();
  const auto changed = [&](std::size_t i, std::int64_t value) {
    std::string bad = contents;
    bad.replace(i * sizeof value, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
    return bad;
  };
  for (const std::string& bad : {std::string(), std::string("short"), contents.substr(0, 400), metric(9).contents(),
                                 changed(0, -1), changed(0, std::int64_t{1} << 60), changed(2, -1), changed(49, 10)}) {
    EXPECT_EQ(failure_of([&] { found.merge(bad); }).code, ExitCode::failed);
  }
  EXPECT_EQ(found.contents(), contents);
  found.merge(changed(49, 9));
}

}  // namespace
}  // namespace carillon::testing
