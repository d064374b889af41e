#include "src/tasks/confusion_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace carillon::testing {
namespace {

/// Three classes. The last one has no samples, and no sample of the middle one is found.
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
