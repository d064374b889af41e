#include "src/report/run_log.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "src/tasks/classification_metric.h"
#include "tests/support/event_files.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/metrics.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class RunLogTest : public ::testing::Test {
 protected:
  /// Runs `action` with a log that starts at `first_step`. Returns what it prints on stdout.
  template <typename Action>
  std::string printed(std::int64_t first_step, Action action, RunLogSettings settings = {}) {
    settings.loss_name = "cross_entropy";
    settings.first_step = first_step;
    settings.last_step = 400;
    ::testing::internal::CaptureStdout();
    RunLog log(directory_.path(), settings);
    action(log);
    return ::testing::internal::GetCapturedStdout();
  }
  std::string metrics() const { return read_text(directory_.path() / "metrics.jsonl"); }
  /// Returns the scalars of the event file, by tag.
  std::map<std::string, float> scalars() const {
    std::map<std::string, float> found;
    for (const event::Event& event : read_events(event_files(directory_.path()).at(0))) {
      for (const auto& value : event.summary().value()) {
        if (value.has_simple_value()) found[value.tag()] = value.simple_value();
      }
    }
    return found;
  }

  TemporaryDirectory directory_;
};

TEST_F(RunLogTest, LogsAStepOnTheConsoleAndInTheMetrics) {
  const StepRecord record{.result = {.step = 20, .loss = 2.0, .l2_loss = 0.5},
                          .learning_rate = 0.1,
                          .step_seconds = 0.5,
                          .global_batch = 64};
  EXPECT_THAT(printed(0, [&](RunLog& log) { log.step(record); }),
              HasSubstr(": step 20, loss = 2.50 (128.0 examples/sec; 0.500 sec/batch)\n"));
  const auto line = nlohmann::json::parse(metrics());
  EXPECT_EQ(line.at("loss"), 2.5);
  EXPECT_EQ(line.at("cross_entropy"), 2.0);
  EXPECT_EQ(line.at("examples_per_second"), 128.0);
}

TEST_F(RunLogTest, PrintsTheL2LossAndTheGradientsNormBesideTheTasksLossIfAsked) {
  const StepRecord record{.result = {.step = 20, .loss = 2.0, .l2_loss = 0.5, .gradient_norm = 12.3456},
                          .step_seconds = 0.5,
                          .global_batch = 64};
  EXPECT_THAT(
      printed(0, [&](RunLog& log) { log.step(record); }, {.prints_l2_apart = true, .prints_gradient_norm = true}),
      HasSubstr(": step 20, loss = 2.00 (128.0 examples/sec; 0.500 sec/batch), L2 = 0.50, gradient norm = 12.3\n"));
  EXPECT_EQ(nlohmann::json::parse(metrics()).at("loss"), 2.5);
}

TEST_F(RunLogTest, LogsTheGradientsNormInTheMetricsAndForTensorBoard) {
  const StepRecord record{
      .result = {.step = 20, .loss = 2.5, .gradient_norm = 1.5}, .step_seconds = 0.5, .global_batch = 64};
  const std::string line = printed(0, [&](RunLog& log) {
    log.step(record);
    log.scalars(record);
  });
  EXPECT_THAT(line, ::testing::Not(HasSubstr("gradient norm"))) << "it is printed only if the log is told so";
  EXPECT_EQ(nlohmann::json::parse(metrics()).at("gradient_norm"), 1.5);
  EXPECT_EQ(scalars().at("gradient_norm"), 1.5f);
}

TEST_F(RunLogTest, LogsNoNormThatIsUnknown) {
  const StepRecord record{.result = {.step = 20, .loss = 2.5}, .step_seconds = 0.5, .global_batch = 64};
  printed(0, [&](RunLog& log) {
    log.step(record);
    log.scalars(record);
  });
  EXPECT_FALSE(nlohmann::json::parse(metrics()).contains("gradient_norm"));
  EXPECT_FALSE(scalars().contains("gradient_norm"));
}

TEST_F(RunLogTest, LogsAnEvaluationOnTheConsoleAndInTheMetrics) {
  EXPECT_EQ(printed(0, [](RunLog& log) { log.evaluation(30, accuracy_of(9840, 10000)); }),
            "step 30: precision @ 1 = 0.984 (9840/10000)\n");
  const auto line = nlohmann::json::parse(metrics());
  EXPECT_EQ(line.at("step"), 30);
  EXPECT_EQ(line.at("eval_precision"), 0.984);
  EXPECT_EQ(line.at("eval_correct"), 9840);
  EXPECT_EQ(line.at("eval_total"), 10000);
  EXPECT_EQ(line.at("evaluation_seconds"), 0.0);
  EXPECT_EQ(line.size(), 6u) << line;  // the sixth member is the time
  EXPECT_THAT(scalars(), ElementsAre(Pair("precision @ 1", 0.984f)));
}

TEST_F(RunLogTest, LogsEveryScoreOfAnEvaluation) {
  EXPECT_EQ(printed(0, [](RunLog& log) { log.evaluation(30, ErrorMetric(0.5)); }), "step 30: error = 0.500\n");
  const auto line = nlohmann::json::parse(metrics());
  EXPECT_EQ(line.at("eval_error"), 0.5);
  EXPECT_EQ(line.at("eval_samples"), 1.0);
  EXPECT_EQ(line.size(), 5u) << line;
  EXPECT_THAT(scalars(), UnorderedElementsAre(Pair("error", 0.5f), Pair("samples", 1.0f)));
}

TEST_F(RunLogTest, TheGraphHasShapesAndWhatAStepDoesBehindTheLoss) {
  Graph graph(4);
  const Value x = image_input(graph, "input", {.sample = {2, 3, 1}});
  dense(graph, "fc", x, {.units = 5});
  printed(0, [&](RunLog& log) { log.graph(graph, "CPU:0", "nesterov", 8); });
  event::Graph told;
  EXPECT_TRUE(told.ParseFromString(read_events(event_files(directory_.path()).at(0)).at(1).graph_def()));
  std::map<std::string, event::Node> nodes;
  for (const event::Node& node : told.node()) nodes[node.name()] = node;
  EXPECT_EQ(nodes.at("fc").attr().at("_output_shapes").list().shape(0).dim(1).size(), 5);
  EXPECT_EQ(nodes.at("fc/weights").attr().at("_output_shapes").list().shape(0).dim(0).size(), 6);
  EXPECT_EQ(nodes.at("gradients").input(0), "fc");
  EXPECT_EQ(nodes.at("averaging").op(), "MeanOver8Towers");
  EXPECT_EQ(nodes.at("update").op(), "nesterov");
  EXPECT_THAT(nodes.at("update").input(), ElementsAre("averaging", "fc/weights", "fc/biases"));
}

TEST_F(RunLogTest, SettingsAreATableInMarkdown) {
  printed(0, [](RunLog& log) { log.settings(7, {{"--model", "a|b"}, {"--seed", 3}}); });
  const event::Event told = read_events(event_files(directory_.path()).at(0)).at(1);
  EXPECT_EQ(told.step(), 7);
  EXPECT_EQ(told.summary().value(0).metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(told.summary().value(0).tensor().string_val(0),
            "| setting | value |\n|---|---|\n| --model | `\"a\\|b\"` |\n| --seed | `3` |\n");
}

TEST_F(RunLogTest, OfAResumedRunDropsWhatTheStoppedOneLoggedLater) {
  write_text(directory_.path() / "metrics.jsonl", "{\"step\":10}\n{\"step\":20}\n");
  printed(20, [](RunLog&) {});
  EXPECT_EQ(metrics(), "{\"step\":10}\n");
}

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

const PhaseSeconds times{.start = 0.4, .data = 0.1, .training = 32.1, .evaluation = 1.21, .checkpoints = 0.4};

TEST(TargetLine, ReportsTheTimeSinceTheStartByPhases) {
  EXPECT_EQ(target_line(2400, Accuracy{.correct = 9840, .total = 10000}.score(), 0.98, times),
            "reached accuracy 0.9840 (9840/10000) at step 2400, --stop-at-accuracy 0.98, after 34.21 s: start 0.40 s, "
            "data 0.10 s, training 32.10 s, evaluation 1.21 s, checkpoints 0.40 s");
  EXPECT_THAT(target_line(7, {.name = "error", .value = 0.25}, 0.3, times),
              StartsWith("reached error 0.2500 at step 7, --stop-at-accuracy 0.3, after 34.21 s: "));
}

TEST(PatienceLine, NamesTheBestEvaluation) {
  EXPECT_EQ(patience_line(2400, 3, StepScore{900, Accuracy{.correct = 9707, .total = 10000}.score()}),
            "ended by --patience 3 at step 2400: no later evaluation was better than accuracy 0.9707 (9707/10000) at "
            "step 900");
  EXPECT_EQ(patience_line(2400, 3, std::nullopt), "ended by --patience 3 at step 2400: all scores are NaN");
}

TEST(BestCheckpointLine, NamesFileScoreAndStep) {
  EXPECT_EQ(best_checkpoint_line("runs/best.ckpt.h5", {7, {.name = "error", .value = 0.25}}),
            "best checkpoint runs/best.ckpt.h5: error 0.2500 at step 7");
}

RunSummary summary() {
  return {.first_step = 1000,
          .last_step = 3000,
          .global_batch = 128,
          .best = {{.step = 2500, .score = Accuracy{.correct = 9832, .total = 10000}.score()}},
          .seconds = {.start = 1.0, .data = 4.0, .training = 60.0, .evaluation = 10.0, .checkpoints = 5.0},
          .rank_work = {64.0, 44.0, 60.0, 70.0}};
}

TEST(RunSummary, IsATableOfTheRunsWorkAndItsTimes) {
  // The ranks waited for 0, 20, 4 and 0 s. The last rank's working time is longer than the first rank's data and
  // training time. Rounding can cause this. The wait of this rank then counts as 0.
  EXPECT_THAT(summary_lines(summary()),
              ElementsAre("steps                  2000  from 1000 to 3000",                                //
                          "images/s             4000.0  in training, with data wait",                      //
                          "best accuracy        0.9832  9832/10000 at step 2500",                          //
                          "wall time                       share",                                         //
                          "start                1.00 s     1.2 %",                                         //
                          "data wait            4.00 s     5.0 %",                                         //
                          "training            60.00 s    75.0 %",                                         //
                          "  rank wait          6.00 s     7.5 %  mean of 4 ranks; most, rank 1: 25.0 %",  //
                          "evaluation          10.00 s    12.5 %",                                         //
                          "checkpoints          5.00 s     6.2 %",                                         //
                          "total               80.00 s   100.0 %"));
}

TEST(RunSummary, NamesABestScoreThatIsNotARatioWithoutCounts) {
  RunSummary run = summary();
  run.best->score = {.name = "error", .value = 0.25};
  EXPECT_EQ(summary_lines(run).at(2), "best error           0.2500  at step 2500");
}

TEST(RunSummary, SaysNothingOfAShortRun) {
  RunSummary run = summary();
  EXPECT_THAT(summary_lines(run, 80.5), IsEmpty());
  EXPECT_THAT(summary_lines(run, 80.0), SizeIs(11));
  run.seconds = {.training = 9.99};
  EXPECT_THAT(summary_lines(run), IsEmpty());
  run.seconds = {.training = 10.0};
  EXPECT_THAT(summary_lines(run), SizeIs(11));
}

TEST(RunSummary, OmitsRowsThatDoNotApply) {
  RunSummary run = summary();
  run.best.reset();
  run.rank_work.clear();
  run.last_step = run.first_step;
  const std::vector<std::string> lines = summary_lines(run);
  EXPECT_THAT(lines, SizeIs(8));
  for (const char* const name : {"images/s", "best accuracy", "  rank wait"}) {
    EXPECT_THAT(lines, Each(Not(StartsWith(name))));
  }
}

TEST(RunSummary, StaysAlignedInALongFastRun) {
  RunSummary run = summary();
  run.last_step = 123456789;
  run.global_batch = 8192;
  run.seconds.training = 1234567.0;
  const std::vector<std::string> lines = summary_lines(run);
  EXPECT_EQ(lines[0], "steps             123455789  from 1000 to 123456789");
  EXPECT_EQ(lines[1], "images/s           819191.3  in training, with data wait");
  EXPECT_EQ(lines[6], "training       1234567.00 s   100.0 %");
  EXPECT_EQ(lines[10], "total          1234587.00 s   100.0 %  342 h 56 min");
}

}  // namespace
}  // namespace carillon::testing
