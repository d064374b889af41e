#include "src/train/loop/training_log.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "carillon/data/record.h"
#include "report/event.pb.h"
#include "src/report/tensorboard.h"
#include "tests/support/metrics.h"
#include "tests/train/run_parts_test.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(RunPartsTest, WriteOnTheFirstRankOnly) {
  Parts run(*this);
  run.log.open(0);
  run.log.announce({tower_, device_, "self", 1, nullptr});
  run.log.start_clock();
  run.log.count_step(0.0);
  run.log.log_step({.step = 0, .logs = true}, {.loss = 2.0, .l2_loss = 0.5}, 0.01);
  run.log.show_progress({.step = 0}, {});
  run.log.log_evaluation(1, accuracy_of(1, 4), {});
  run.checkpoints.save({.step = 1}, tower_);
  run.finish(1);
  EXPECT_EQ(std::filesystem::exists(train_dir()), first());
  EXPECT_EQ(list_checkpoints(train_dir()).size(), first() ? 1u : 0u);
  if (first()) {
    EXPECT_EQ(last_metrics().at("eval_precision"), 0.25);
  }
}

TEST_F(RunPartsTest, TellsTheTotalLossAndMeansOfTheStepsSinceTheLastLine) {
  Parts run(*this);
  run.log.open(0);
  run.log.start_clock();
  for (int step = 0; step < 4; ++step) {
    run.log.count_step(0.5);
    run.log.count_result({.reduce_seconds = 0.25});
    if (step == 1) run.log.log_step({.step = 1, .logs = true}, {.loss = 2.0, .l2_loss = 0.5}, 0.01);
  }
  run.log.log_evaluation(4, accuracy_of(1, 4), std::chrono::seconds(-1000));  // adds 1000 s to the time of steps
  run.log.log_step({.step = 3, .logs = true}, {.loss = 2.0, .l2_loss = 0.5}, 0.01);
  if (!first()) return;
  const nlohmann::json line = last_metrics();
  EXPECT_EQ(line.at("loss"), 2.5);
  EXPECT_EQ(line.at("cross_entropy"), 2.0);
  EXPECT_EQ(line.at("learning_rate"), 0.01);
  EXPECT_EQ(line.at("data_wait_seconds"), 0.5);
  EXPECT_EQ(line.at("allreduce_seconds"), 0.25);
  EXPECT_NEAR(line.at("step_seconds"), 500.0, 1.0);
  EXPECT_NEAR(line.at("examples_per_second"), 4.0 * mpi_.size() / 500.0, 1e-3);
}

/// Returns the histograms in the event files of a train directory, by tag.
std::map<std::string, event::Histogram> histograms_in(const std::filesystem::path& train_dir) {
  std::map<std::string, event::Histogram> found;
  for (const auto& entry : std::filesystem::directory_iterator(train_dir)) {
    if (!entry.path().filename().string().starts_with("events.")) continue;
    RecordReader reader(entry.path().string());
    for (Record record; reader.next(record);) {
      event::Event what;
      EXPECT_TRUE(what.ParseFromArray(record.data.data(), static_cast<int>(record.data.size())));
      for (const auto& value : what.summary().value()) {
        if (value.has_histo()) found[value.tag()] = value.histo();
      }
    }
  }
  return found;
}

/// Returns the last scalar with this tag in the event files of a train directory, or NaN if there is none.
float scalar_in(const std::filesystem::path& train_dir, std::string_view tag) {
  float found = std::nanf("");
  for (const auto& entry : std::filesystem::directory_iterator(train_dir)) {
    if (!entry.path().filename().string().starts_with("events.")) continue;
    RecordReader reader(entry.path().string());
    for (Record record; reader.next(record);) {
      event::Event what;
      EXPECT_TRUE(what.ParseFromArray(record.data.data(), static_cast<int>(record.data.size())));
      for (const auto& value : what.summary().value()) {
        if (value.tag() == tag) found = value.simple_value();
      }
    }
  }
  return found;
}

/// All gradients are 1. The gradient of the frozen variable is also 1, but the norm must not include it.
TEST_F(RunPartsTest, TheNormOfASummaryIsThatOfFiniteGradientsThatAreTrained) {
  const OptimizerSettings freezing{.groups = {{.pattern = "layer1/*", .frozen_after = 0}}};
  const auto communicator = make_communicator(mpi_, device_);
  Tower tower(mnist_network(mnist_images()), ten_classes(), {.batch_size = 4, .optimizer = freezing}, device_,
              *communicator);
  if (first()) tower.initialize(1);
  tower.broadcast_from_first();
  Parts run(*this);
  run.log.open(0);
  const std::span<float> gradients = tower.parameters().gradients_and_sums();
  const auto norm_at = [&](int step) {
    run.log.summarize(step, {}, tower, device_);
    run.log.log_step({.step = step, .summarizes = true}, {.loss = 2.0}, 0.01);
    return first() ? scalar_in(train_dir(), "gradient_norm") : 0.0f;
  };
  std::ranges::fill(gradients, std::nanf(""));
  const float bad = norm_at(0);
  std::ranges::fill(gradients, 1.0f);
  const float good = norm_at(1);
  if (!first()) return;
  EXPECT_TRUE(std::isnan(bad)) << "it was logged";
  EXPECT_NEAR(good, std::sqrt(5010.0), 1e-3);
}

TEST_F(RunPartsTest, SummarizesVariablesAndTheFirstRanksGradientsWhoeverCountsThem) {
  Parts run(*this);
  run.log.open(0);
  const ParameterStore& parameters = tower_.parameters();
  std::ranges::fill(parameters.gradients_and_sums(), 1.0f + static_cast<float>(mpi_.rank()));
  run.log.summarize(10, {}, tower_, device_);
  // This step writes a summary, which also writes the events to the disk.
  run.log.log_step({.step = 10, .summarizes = true}, {.loss = 2.0, .l2_loss = 0.5}, 0.01);
  if (!first()) return;
  const auto found = histograms_in(train_dir());
  EXPECT_EQ(found.size(), 2 * parameters.specs().size());
  EXPECT_NEAR(scalar_in(train_dir(), "gradient_norm"), std::sqrt(397510.0), 0.1);
  for (int i = 0; i < static_cast<int>(parameters.specs().size()); ++i) {
    const ParameterSpec& spec = parameters.specs()[i];
    const Histogram expected = histogram_of(parameters.value(i).floats());
    EXPECT_EQ(found.at(spec.name).max(), expected.max) << spec.name;
    EXPECT_EQ(found.at(spec.name).sum_squares(), expected.sum_squares) << spec.name;
    EXPECT_NEAR(found.at("gradients_on_average/" + spec.name).min(), 1.0, 0.01) << spec.name;
    EXPECT_NEAR(found.at("gradients_on_average/" + spec.name).max(), 1.0, 0.01) << spec.name;
  }
}

TEST_F(RunPartsTest, EndALongRunWithATableAndAShortOneWithout) {
  for (const bool is_long : {false, true}) {
    Parts run(*this);
    run.log.open(20);
    std::int64_t step = 20;
    for (const std::int64_t correct : {1, 3, 3, 2}) run.log.log_evaluation(++step, accuracy_of(correct, 4), {});
    const PhaseSeconds seconds{.start = 50.0, .data = 25.0, .training = 25.0};
    ::testing::internal::CaptureStdout();
    run.finish(30, is_long ? seconds : PhaseSeconds{});
    const std::string told = ::testing::internal::GetCapturedStdout();
    const bool has_table = first() && is_long;
    EXPECT_EQ(std::ranges::count(told, '\n'), has_table ? 11 : first()) << told;
    if (!has_table) continue;
    EXPECT_THAT(told, StartsWith("steps                    10  from 20 to 30\n"));
    EXPECT_THAT(told, HasSubstr(fmt::format("\nimages/s{:>19.1f}  ", 10 * 4 * mpi_.size() / 50.0)));
    EXPECT_THAT(told, HasSubstr("\nbest accuracy        0.7500  3/4 at step 22\n"));
    EXPECT_THAT(told, HasSubstr("\nstart               50.0"));
    EXPECT_THAT(told, HasSubstr("\ndata wait           25.0"));
    EXPECT_THAT(told, HasSubstr("\ntraining            25.0"));
  }
}

TEST_F(RunPartsTest, NameTheLossAsTheTaskDoes) {
  options_.task.value = error_task();
  Parts run(*this);
  run.log.open(0);
  run.log.start_clock();
  run.log.log_step({.step = 0, .logs = true}, {.loss = 2.0, .l2_loss = 0.5}, 0.01);
  if (!first()) return;
  EXPECT_EQ(last_metrics().at("absolute_error"), 2.0);
  EXPECT_EQ(last_metrics().at("loss"), 2.5);
  EXPECT_FALSE(last_metrics().contains("cross_entropy"));
}

TEST_F(RunPartsTest, OfAFreshRunKeepTheEarlierOneUntilTheLogIsOpened) {
  options_.checkpoint.fresh = true;
  Parts run(*this);
  if (first()) {
    write_text(train_dir() / "events.out.tfevents.1.host.2", "");
    write_text(train_dir() / "metrics.jsonl", "{\"step\":-1}\n");
  }
  run.log.open(0);
  EXPECT_FALSE(std::filesystem::exists(train_dir() / "events.out.tfevents.1.host.2"));
  if (first()) {
    EXPECT_EQ(read_text(train_dir() / "metrics.jsonl"), "");
  }
}

}  // namespace
}  // namespace carillon::testing
