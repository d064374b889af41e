#include "src/report/learning_curves.h"

#include <gmock/gmock.h>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

TEST(LearningCurves, AreThoseOfMetricsJsonl) {
  const TemporaryDirectory directory;
  write_text(directory.path() / "metrics.jsonl",
             R"({"step": 0, "loss": 3.0, "cross_entropy": 2.5, "learning_rate": 0.1}
{"step": 10, "loss": null, "cross_entropy": null, "learning_rate": 0.2}
not JSON
{"step": 10, "eval_precision": 0.5, "eval_loss": 1.25, "time": 1}
{"step": 20, "loss": 1.0}
{"eval_precision": 0.5}
{"step": 21, "eval_)");
  const LearningCurves curves = read_learning_curves(directory.path(), "cross_entropy");
  ASSERT_EQ(curves.loss.size(), 2u);
  EXPECT_EQ(curves.loss[0].value, 2.5);
  EXPECT_EQ(curves.loss[1].step, 20.0);
  EXPECT_EQ(curves.learning_rate.size(), 2u);
  ASSERT_EQ(curves.evaluations.size(), 1u);
  EXPECT_EQ(curves.evaluations[0].step, 10);
  EXPECT_EQ(curves.of_score("precision")[0].value, 0.5);
  EXPECT_EQ(curves.of_score("loss")[0].value, 1.25);
  EXPECT_TRUE(curves.of_score("top_5").empty());
}

TEST(LearningCurves, HaveTheLastEvaluationOfAStepAndNoStepsThatAreNotCounts) {
  const TemporaryDirectory directory;
  write_text(directory.path() / "metrics.jsonl", R"({"step": 10, "eval_r2": 0.1}
{"step": 10, "eval_r2": 0.2}
{"step": -5, "eval_r2": 0.3}
{"step": 1e300, "eval_r2": 0.4}
{"step": 10.5, "eval_r2": 0.5}
{"step": 1e999, "squared_error": 0.6}
)");
  const LearningCurves curves = read_learning_curves(directory.path(), "squared_error");
  ASSERT_EQ(curves.evaluations.size(), 1u);
  EXPECT_EQ(curves.of_score("r2")[0].value, 0.2);
  EXPECT_TRUE(curves.loss.empty());
}

TEST(LearningCurves, AreEmptyWithoutAFile) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(read_learning_curves(directory.path(), "cross_entropy").is_empty());
  std::filesystem::create_directory(directory.path() / "metrics.jsonl");
  EXPECT_TRUE(read_learning_curves(directory.path(), "cross_entropy").is_empty());
}

TEST(LearningCurves, AreThinnedToMeans) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), static_cast<double>(2 * i)});
  const std::vector<CurvePoint> means = thinned(points, 10);
  ASSERT_EQ(means.size(), 10u);
  EXPECT_EQ(means[0].step, 49.5);
  EXPECT_EQ(means[9].value, 1899.0);
  EXPECT_EQ(thinned(points, 1000).size(), 1000u);
}

}  // namespace
}  // namespace carillon::testing
