#include "src/report/metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "carillon/core/file.h"
#include "src/tasks/classification_metric.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;
using testing::entry_count;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_text;
using testing::TemporaryDirectory;
using testing::write_text;

class Metrics : public ::testing::Test {
 protected:
  auto writer(std::int64_t first_step) {
    return MetricsWriter(directory_.path(), first_step, [this](const std::string& s) { warnings_.push_back(s); });
  }
  std::filesystem::path file() const { return directory_.path() / "metrics.jsonl"; }

  TemporaryDirectory directory_;
  std::vector<std::string> warnings_;
};

TEST_F(Metrics, AreOneObjectALineOnDiskAtOnce) {
  auto metrics = writer(0);
  metrics.write({{"step", 10}, {"loss", 0.5}});
  metrics.write({{"step", 20}, {"loss", 0.25}});
  EXPECT_EQ(read_text(file()), "{\"loss\":0.5,\"step\":10}\n{\"loss\":0.25,\"step\":20}\n");
}

TEST_F(Metrics, StayValidJsonWithNanAndBrokenText) {
  auto metrics = writer(0);
  metrics.write({{"step", 1}, {"loss", std::numeric_limits<double>::quiet_NaN()}, {"note", "a\xff\nb"}});
  const auto text = read_text(file());
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_TRUE(nlohmann::json::parse(text).at("loss").is_null());
}

TEST_F(Metrics, OfAResumedRunLoseLaterStepsAndACutLine) {
  const std::string kept = "{\"step\":10}\n{\"event\":\"start\"}\n{\"step\":490}\n";
  write_text(file(), kept + "{\"step\":500}\n{\"step\":5000000000}\n{\"step\":49");
  auto metrics = writer(500);
  EXPECT_EQ(read_text(file()), kept);
  metrics.write({{"step", 500}});
  EXPECT_EQ(read_text(file()), kept + "{\"step\":500}\n");
  EXPECT_EQ(entry_count(directory_.path()), 1u);
}

TEST_F(Metrics, AreNotWrittenTwiceIfLaterLinesCannotBeDropped) {
  const std::string text = "{\"step\":10}\n{\"step\":500}\n";
  const Descriptor memory(::memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(write_all(memory.get(), std::as_bytes(std::span(text))), 0);
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);  // the file cannot be truncated
  std::filesystem::create_symlink(fmt::format("/proc/self/fd/{}", memory.get()), file());
  auto metrics = writer(500);
  metrics.write({{"step", 500}});
  EXPECT_EQ(read_text(file()), text);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("; continuing without it")));
}

TEST_F(Metrics, OfAResumedRunLoseLaterStepsOnAFullDiskToo) {
  write_text(file(), "{\"step\":10}\n{\"step\":500}\n{\"st");
  {
    const testing::FileSizeLimit limit(0);
    writer(500);
  }
  EXPECT_EQ(read_text(file()), "{\"step\":10}\n");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Metrics, NeedLittleMemoryHoweverLargeTheFileIs) {
  const auto peak_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const std::string kept = "{\"eval_error\":0.5,\"step\":10}\n";
  write_text(file(), kept + "{\"step\":20}\n");
  std::filesystem::resize_file(file(), std::uint64_t{1} << 30);  // a sparse file
  const auto before = peak_kib();
  const auto found = logged_score(directory_.path(), 10, {.name = "error"});
  writer(20);
  EXPECT_LT(peak_kib() - before, 64 << 10);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->value, 0.5);
  EXPECT_EQ(read_text(file()), kept);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Metrics, ShowWhetherAStepIsLogged) {
  EXPECT_TRUE(logs_loss_from(directory_.path() / "absent", 5)) << "nothing can be added";
  write_text(file(), "{\"loss\":1,\"step\":4}\n{\"eval_error\":0.5,\"step\":5}\n");
  EXPECT_TRUE(logs_loss_from(directory_.path(), 4));
  EXPECT_FALSE(logs_loss_from(directory_.path(), 5));
  write_text(file(), "{\"eval_error\":0.5,\"step\":5}\n");
  EXPECT_FALSE(logs_loss_from(directory_.path(), 5));
}

TEST_F(Metrics, HoldTheScoreOfAStep) {
  const Score form = Accuracy{}.score();
  EXPECT_FALSE(logged_score(directory_.path(), 5, form).has_value());
  const std::string evaluation = "{\"eval_correct\":3,\"eval_total\":4,\"step\":5}\n";
  write_text(file(),
             "{\"loss\":1,\"step\":5}\nx\n7\n" + evaluation + "{\"eval_correct\":2,\"eval_total\":4,\"step\":6}");
  const auto found = logged_score(directory_.path(), 5, form);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->value, 0.75);
  EXPECT_EQ(found->ratio.value().part, 3);
  EXPECT_EQ(found->ratio.value().whole, 4);
  EXPECT_FALSE(logged_score(directory_.path(), 4, form).has_value());
  EXPECT_FALSE(logged_score(directory_.path(), 6, form).has_value()) << "its line is cut";
}

TEST_F(Metrics, HoldAScoreThatIsNotARatioByItsName) {
  write_text(file(), "{\"eval_error\":0.5,\"step\":5}\n{\"eval_error\":0.25,\"step\":5}\n{\"error\":1,\"step\":6}\n");
  EXPECT_EQ(logged_score(directory_.path(), 5, {.name = "error"}).value().value, 0.25) << "the last one";
  EXPECT_FALSE(logged_score(directory_.path(), 5, {.name = "loss"}).has_value());
  EXPECT_FALSE(logged_score(directory_.path(), 6, {.name = "error"}).has_value());
}

TEST_F(Metrics, HoldNoScoreWithoutNumbers) {
  const Score form = Accuracy{}.score();
  for (const char* const counts :
       {"\"eval_correct\":0,\"eval_total\":0", "\"eval_correct\":1", "\"eval_correct\":1,\"eval_total\":2.5",
        "\"eval_correct\":\"1\",\"eval_total\":2"}) {
    write_text(file(), fmt::format("{{\"step\":5,{}}}\n", counts));
    EXPECT_FALSE(logged_score(directory_.path(), 5, form).has_value()) << counts;
  }
  write_text(file(), "{\"eval_error\":null,\"step\":5}\n");
  EXPECT_FALSE(logged_score(directory_.path(), 5, {.name = "error"}).has_value());
}

TEST_F(Metrics, HoldTheScoresOfAllEvaluationsInTheirOrder) {
  const auto found = [&](std::int64_t last_step) {
    std::vector<std::pair<std::int64_t, double>> scores;
    for (const auto& [step, score] : logged_scores(directory_.path(), last_step, {.name = "error"})) {
      scores.emplace_back(step, std::isnan(score.value) ? -1.0 : score.value);
    }
    return scores;
  };
  EXPECT_THAT(found(100), IsEmpty());
  write_text(file(),
             "{\"eval_error\":0.5,\"step\":5}\n"
             "x\n"
             "{\"loss\":1,\"step\":6}\n"
             "{\"eval_error\":null,\"step\":10}\n"
             "{\"eval_error\":2,\"step\":15}\n"
             "{\"eval_error\":0.25,\"step\":15}\n"
             "{\"eval_error\":1,\"step\":20}\n");
  EXPECT_THAT(found(19), ElementsAre(std::pair(5, 0.5), std::pair(10, -1.0), std::pair(15, 0.25)));
  EXPECT_EQ(found(20).size(), 4u);
  EXPECT_THAT(found(4), IsEmpty());
}

TEST_F(Metrics, OfAResumedRunLoseLinesThatAreNotJson) {
  write_text(file(), "{\"step\":1}\n" + std::string(20, '\0') + "\n");
  writer(5);
  EXPECT_EQ(read_text(file()), "{\"step\":1}\n");
}

TEST_F(Metrics, ThatCannotBeWrittenWarnOnceAndContinue) {
  MetricsWriter metrics(directory_.path() / "nowhere", 0, [this](const std::string& s) { warnings_.push_back(s); });
  metrics.write({{"step", 1}});
  metrics.write({{"step", 2}});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("nowhere/metrics.jsonl: No such file or directory")));
}

TEST_F(Metrics, WarnOnceAndContinueIfTheFileIsNotPlain) {
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  auto metrics = writer(5);
  metrics.write({{"step", 5}});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("metrics.jsonl: is not a regular file; continuing without it")));
}

TEST_F(Metrics, OnAFullDiskWarnOnceAndHoldWholeLines) {
  auto metrics = writer(0);
  {
    const testing::FileSizeLimit limit(30);
    for (int i = 0; i < 9; ++i) metrics.write({{"step", i}});
  }
  metrics.write({{"step", 9}});
  EXPECT_EQ(read_text(file()), "{\"step\":0}\n{\"step\":1}\n{\"step\":9}\n");
  EXPECT_EQ(warnings_.size(), 1u);
}

}  // namespace

}  // namespace carillon

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
