#include "src/train/loop/recorder.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <thread>

#include "carillon/data/record.h"
#include "report/event.pb.h"
#include "src/report/histogram.h"
#include "tests/support/metrics.h"
#include "tests/train/recorder_test.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(RecorderTest, WritesOnTheFirstRankOnly) {
  recorder_.open_directory();
  recorder_.open_logs(0);
  recorder_.announce({tower_, device_, "self", 1, nullptr});
  recorder_.start_clock();
  recorder_.count_step(0.0);
  recorder_.log_step({.step = 0, .logs = true}, {.task = 2.0, .l2 = 0.5}, 0.01);
  recorder_.show_progress({.step = 0});
  recorder_.log_evaluation(1, accuracy_of(1, 4), {});
  recorder_.save({.step = 1}, tower_);
  recorder_.finish({.step = 1}, ExitCode::done);
  EXPECT_EQ(std::filesystem::exists(train_dir()), first());
  EXPECT_EQ(list_checkpoints(train_dir()).size(), first() ? 1u : 0u);
  if (first()) {
    EXPECT_EQ(last_metrics().at("eval_precision"), 0.25);
  }
}

TEST_F(RecorderTest, TellsTheTotalLossAndMeansOfTheStepsSinceTheLastLine) {
  recorder_.open_directory();
  recorder_.open_logs(0);
  recorder_.start_clock();
  for (int step = 0; step < 4; ++step) {
    recorder_.count_step(0.5);
    recorder_.count_result({.reduce_seconds = 0.25});
    if (step == 1) recorder_.log_step({.step = 1, .logs = true}, {.task = 2.0, .l2 = 0.5}, 0.01);
  }
  recorder_.log_evaluation(4, accuracy_of(1, 4), std::chrono::seconds(-1000));  // as if none of it was steps
  recorder_.log_step({.step = 3, .logs = true}, {.task = 2.0, .l2 = 0.5}, 0.01);
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

/// By tag, the histograms in a train directory's event file.
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

/// The last scalar with this tag in a train directory's event file; NaN: none.
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

/// A frozen variable has a gradient of 1.
TEST_F(RecorderTest, TheNormOfASummaryIsThatOfFiniteGradientsThatAreTrained) {
  const OptimizerSettings freezing{.groups = {{.pattern = "layer1/*", .frozen_after = 0}}};
  const auto communicator = make_communicator(mpi_, device_);
  Tower tower(mnist_network(mnist_images()), ten_classes(), {.batch_size = 4, .optimizer = freezing}, device_,
              *communicator);
  if (first()) tower.initialize(1);
  tower.broadcast_from_first();
  recorder_.open_directory();
  recorder_.open_logs(0);
  const std::span<float> gradients = tower.parameters().gradients_and_sums();
  const auto norm_at = [&](int step) {
    recorder_.summarize(step, {}, tower, device_);
    recorder_.log_step({.step = step, .summarizes = true}, {.task = 2.0}, 0.01);
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

TEST_F(RecorderTest, SummarizesVariablesAndTheFirstRanksGradientsWhoeverCountsThem) {
  recorder_.open_directory();
  recorder_.open_logs(0);
  const ParameterStore& parameters = tower_.parameters();
  std::ranges::fill(parameters.gradients_and_sums(), 1.0f + static_cast<float>(mpi_.rank()));
  recorder_.summarize(10, {}, tower_, device_);
  recorder_.log_step({.step = 10, .summarizes = true}, {.task = 2.0, .l2 = 0.5}, 0.01);  // to the disk
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

TEST_F(RecorderTest, EndsALongRunWithATableAndAShortOneWithout) {
  for (const auto before : {std::chrono::seconds(0), std::chrono::seconds(100)}) {
    Recorder recorder(options_, task_, description_, mpi_, Recorder::Clock::now() - before);
    recorder.open_directory();
    recorder.open_logs(20);
    std::int64_t step = 20;
    for (const std::int64_t correct : {1, 3, 3, 2}) recorder.log_evaluation(++step, accuracy_of(correct, 4), {});
    recorder.enter(Phase::data, Recorder::Clock::now() - before / 2);
    recorder.enter(Phase::compute, Recorder::Clock::now() - before / 4);
    ::testing::internal::CaptureStdout();
    recorder.finish({.step = 30}, ExitCode::done);
    const std::string told = ::testing::internal::GetCapturedStdout();
    const bool has_table = first() && before.count() > 0;
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

TEST_F(RecorderTest, SavesNoStateThatIsNotFinite) {
  recorder_.open_directory();
  tower_.parameters().value(1).floats()[0] = NAN;
  Failure failed = failure_of([&] { recorder_.save({.step = 1}, tower_); });
  EXPECT_EQ(failed.code, first() ? ExitCode::failed : ExitCode::done);
  recorder_.open_logs(0);
  recorder_.finish({.step = 1}, ExitCode::done);
  EXPECT_THAT(list_checkpoints(train_dir()), IsEmpty());
}

TEST_F(RecorderTest, ReachesATargetFromAboveIfLowerIsBetter) {
  task_ = error_task();
  options_.task.stop_at_accuracy = 0.5;
  options_.checkpoint.keep_best = false;
  Recorder recorder(options_, task_, description_, mpi_);
  recorder.open_directory();
  recorder.open_logs(0);
  recorder.resumed({"model.ckpt-3.h5", {.global_step = 3, .options_json = "{}"}});
  ::testing::internal::CaptureStdout();
  recorder.log_evaluation(1, ErrorMetric(0.75), {});
  recorder.log_evaluation(2, ErrorMetric(0.5), {});
  recorder.reached(2, ErrorMetric(0.5));
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_FALSE(recorder.reached_before(1, tower_));
  EXPECT_TRUE(recorder.reached_before(2, tower_));
  EXPECT_FALSE(recorder.lacks_evaluation(1, tower_));
  EXPECT_TRUE(recorder.lacks_evaluation(3, tower_));
  if (!first()) return;
  EXPECT_THAT(printed, StartsWith("step 1: error = 0.750\nstep 2: error = 0.500\nreached error 0.5000 at step 2, "));
  EXPECT_EQ(last_metrics().at("eval_error"), 0.5);
}

TEST_F(RecorderTest, NamesTheLossAsTheTaskDoes) {
  task_ = error_task();
  Recorder recorder(options_, task_, description_, mpi_);
  recorder.open_directory();
  recorder.open_logs(0);
  recorder.start_clock();
  recorder.log_step({.step = 0, .logs = true}, {.task = 2.0, .l2 = 0.5}, 0.01);
  if (!first()) return;
  EXPECT_EQ(last_metrics().at("absolute_error"), 2.0);
  EXPECT_EQ(last_metrics().at("loss"), 2.5);
  EXPECT_FALSE(last_metrics().contains("cross_entropy"));
}

TEST_F(RecorderTest, AsksForACheckpointWhenTheLastIsOld) {
  constexpr std::chrono::hours interval(100);
  options_.checkpoint.checkpoint_every_seconds = std::chrono::seconds(interval).count();
  recorder_.open_directory();
  recorder_.open_logs(0);
  const auto before = Recorder::Clock::now();
  recorder_.start_clock();
  const auto started = Recorder::Clock::now();
  EXPECT_FALSE(recorder_.requests(before + interval - std::chrono::nanoseconds(1)).any());
  EXPECT_EQ(recorder_.requests(started + interval).save, first());
  recorder_.save({.step = 1}, tower_);
  const auto saved = Recorder::Clock::now();
  EXPECT_FALSE(recorder_.requests(started + interval).any());  // counts from the save
  EXPECT_EQ(recorder_.requests(saved + interval).save, first());
  recorder_.finish({.step = 1}, ExitCode::done);
}

TEST_F(RecorderTest, AsksToGiveUpWhenACheckpointFailedTooOften) {
  options_.checkpoint.checkpoint_failures = 0;
  recorder_.open_directory();
  recorder_.open_logs(0);
  {
    const FileSizeLimit limit(100);
    recorder_.save({.step = 1}, tower_);
    while (first() && !recorder_.requests().give_up) std::this_thread::yield();
  }
  EXPECT_EQ(recorder_.requests().give_up, first());
  EXPECT_EQ(requested_by_any(mpi_, recorder_.requests()).give_up, true);
  recorder_.save({.step = 2}, tower_);
  ExitCode code = ExitCode::done;
  try {
    recorder_.finish({.step = 2}, ExitCode::io);
  } catch (const SharedError& error) {
    EXPECT_TRUE(first());
    EXPECT_THAT(error.what(), HasSubstr("model.ckpt-1.h5: File too large; ended at step 2, with a checkpoint"));
    code = error.code();
  } catch (const PeerFailed& peer) {
    code = peer.code();
  }
  EXPECT_EQ(code, ExitCode::io);
  EXPECT_EQ(list_checkpoints(train_dir()).size(), first() ? 1u : 0u);
}

TEST_F(RecorderTest, SaysWhichSettingsChangedAtAResume) {
  description_.add("seed", std::uint64_t{2}, Scope::result);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  recorder_.resumed({"somewhere/model.ckpt-3.h5", {.global_step = 3, .options_json = R"({"seed":1})"}});
  const std::string lines = ::testing::internal::GetCapturedStdout();
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines, first() ? "resuming from somewhere/model.ckpt-3.h5 at step 3\n" : "");
  EXPECT_EQ(warnings, first() ? "warning: --seed was 1 up to the checkpoint and is 2 from here\n" : "");
}

TEST_F(RecorderTest, SaysWhatInitFromGave) {
  description_.add("preprocessing", "torchvision", Scope::result);
  const auto said = [&](const std::string& options, const std::vector<std::string>& excluded) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    recorder_.initialized({"a.h5", {.options_json = options, .variables = {{"x"}, {"y"}}, .buffers = {{"z"}}}},
                          excluded);
    const std::string lines = ::testing::internal::GetCapturedStdout();
    return lines + ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said("{}", {}), first() ? "initialized from a.h5: 3 arrays\n" : "");
  EXPECT_EQ(said(R"({"preprocessing": "torchvision"})", {"y"}),
            first() ? "initialized from a.h5: 2 arrays, without the variables of --init-exclude: y\n" : "");
  EXPECT_EQ(said(R"({"preprocessing": "inception"})", {}),
            first()
                ? "initialized from a.h5: 3 arrays\nwarning: a.h5 was trained with --preprocessing \"inception\", and "
                  "this run has \"torchvision\"\n"
                : "");
}

TEST_F(RecorderTest, RemovesFilesOfAKilledWriter) {
  const auto stale = train_dir() / "model.ckpt-5.h5.4711.tmp";
  if (first()) {
    std::filesystem::create_directories(train_dir());
    write_text(stale, "half a checkpoint");
  }
  recorder_.open_directory();
  EXPECT_FALSE(std::filesystem::exists(stale));
}

TEST_F(RecorderTest, OfAFreshRunKeepsTheEarlierOneUntilItsLogsAreOpened) {
  options_.checkpoint.fresh = true;
  recorder_.open_directory();
  if (first()) {
    write_text(train_dir() / "events.out.tfevents.1.host.2", "");
    write_text(train_dir() / "metrics.jsonl", "{\"step\":-1}\n");
    EXPECT_TRUE(std::filesystem::exists(train_dir() / "events.out.tfevents.1.host.2"));
  }
  recorder_.open_logs(0);
  EXPECT_FALSE(std::filesystem::exists(train_dir() / "events.out.tfevents.1.host.2"));
  if (first()) {
    EXPECT_EQ(read_text(train_dir() / "metrics.jsonl"), "");
  }
}

}  // namespace
}  // namespace carillon::testing
