#include "src/train/loop/trainer.h"

#include <gmock/gmock.h>

#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TrainerTest : public RunTest {};

TEST_F(TrainerTest, LogsEvaluatesAndSavesWhenThatIsDue) {
  options_.data.eval_files = {(directory_ / "test").string()};
  options_.data.eval_every = 4;
  options_.checkpoint.checkpoint_every = 6;
  EXPECT_EQ(train(), ExitCode::done);
  EXPECT_THAT(steps_with("loss"), ElementsAre(0, 5, 10));
  EXPECT_THAT(steps_with("eval_precision"), ElementsAre(4, 8, 12));
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(12, 6));
}

TEST_F(TrainerTest, EpochsCountTheRecordsOfAllRanks) {
  options_.optimizer.epochs = 1.5;
  options_.optimizer.schedule.kind = ScheduleKind::cosine;
  const std::int64_t steps = (90 + 4 * mpi_.size() - 1) / (4 * mpi_.size());
  EXPECT_EQ(train(), ExitCode::done);
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(steps));
  TrainOptions same = options_;
  same.optimizer.epochs = 0.0;
  same.optimizer.max_steps = same.optimizer.schedule.steps = steps;
  same.checkpoint.train_dir = (directory_ / "same").string();
  EXPECT_EQ(train(same), ExitCode::done);
  mpi_.barrier();
  EXPECT_TRUE(saved(steps).variables == read_checkpoint(checkpoint_path(directory_ / "same", steps)).variables);
  options_.optimizer.epochs = 3.0;
  EXPECT_EQ(train(), ExitCode::done);
  EXPECT_THAT(list_checkpoints(train_dir()), ::testing::Contains((180 + 4 * mpi_.size() - 1) / (4 * mpi_.size())));
}

TEST_F(TrainerTest, SharedVariablesAreSavedOnceAndResumed) {
  options_.model.make = [](const NetworkSettings&) { return sharing_network(); };
  options_.optimizer.update.rule = "adamw";
  options_.optimizer.max_steps = 8;
  EXPECT_EQ(train(), ExitCode::done);
  TrainOptions other = options_;
  other.checkpoint.train_dir = (directory_ / "other").string();
  other.optimizer.max_steps = 3;
  EXPECT_EQ(train(other), ExitCode::done);
  other.optimizer.max_steps = 8;
  EXPECT_EQ(train(other), ExitCode::done);
  mpi_.barrier();
  const CheckpointState whole = saved(8), resumed = read_checkpoint(checkpoint_path(directory_ / "other", 8));
  EXPECT_TRUE(resumed.variables == whole.variables);
  EXPECT_TRUE(resumed.moving_averages == whole.moving_averages);
  std::vector<std::string> names;
  for (const NamedArray& array : whole.variables) names.push_back(array.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("patches/weights", "patches/biases", "a/weights", "a/biases",
                                                     "conv1/weights", "conv1/biases", "b/biases", "d/weights",
                                                     "d/biases", "logits/weights", "logits/biases"));
  EXPECT_THAT(whole.network, HasSubstr(R"("shared":{"b/weights":"a/weights"})"));
}

/// The frozen variables include a variable that several ops share. All other variables of these ops are trained.
TEST_F(TrainerTest, ASharedVariableMayBeFrozen) {
  options_.model.make = [](const NetworkSettings&) { return sharing_network(); };
  options_.optimizer.freeze = {"a/weights", "conv1/*", "d/biases"};
  options_.checkpoint.checkpoint_every = 1;
  options_.optimizer.max_steps = 4;
  EXPECT_EQ(train(), ExitCode::done);
  mpi_.barrier();
  const CheckpointState first = saved(1), last = saved(4);
  for (std::size_t i = 0; i < first.variables.size(); ++i) {
    const std::string& name = first.variables[i].name;
    const bool is_frozen = name == "a/weights" || name.starts_with("conv1/") || name == "d/biases";
    EXPECT_EQ(first.variables[i].values == last.variables[i].values, is_frozen) << name;
  }
}

/// Returns a network that initialises biases from the data. It uses the number of images, and the first pixels of the
/// first and of the last image.
Network network_of_data(const NetworkSettings& settings, std::int64_t max_records) {
  Network network = mnist_network(settings);
  const auto compute = [](std::span<const std::uint8_t* const> images) {
    std::vector<float> values(10);
    values[0] = static_cast<float>(images.size());
    values[1] = images.front()[0];
    values[2] = images.back()[0];
    return values;
  };
  network.values_of_data = {{.variable = "layer2/biases", .max_records = max_records, .compute = compute}};
  return network;
}

TEST_F(TrainerTest, ValuesOfDataAreMadeOfTheFirstRecordsBeforeTheFirstStep) {
  const Dataset records = Dataset::open(options_.data.files, grey_records(options_.data.record_form.schema));
  options_.optimizer.max_steps = 0;
  for (const bool takes_all : {false, true}) {
    options_.model.make = takes_all ? [](const NetworkSettings& s) { return network_of_data(s, 1000); }
                                    : [](const NetworkSettings& s) { return network_of_data(s, 7); };
    options_.checkpoint.train_dir = (directory_ / (takes_all ? "all" : "some")).string();
    EXPECT_EQ(train(), ExitCode::done);
    mpi_.barrier();
    const std::size_t count = takes_all ? 60 : 7;
    for (const auto& arrays : {saved(0).variables, saved(0).moving_averages}) {
      const auto biases = std::ranges::find(arrays, "layer2/biases", &NamedArray::name);
      ASSERT_NE(biases, arrays.end());
      EXPECT_THAT(std::vector(biases->values.begin(), biases->values.begin() + 3),
                  ElementsAre(count, records.image(0)[0], records.image(count - 1)[0]));
    }
  }
}

TEST_F(TrainerTest, AFinishedStartIsNotMadeOfDataAgain) {
  options_.model.make = [](const NetworkSettings& s) { return network_of_data(s, 7); };
  options_.optimizer.max_steps = 2;
  train();
  TrainOptions other = options_;
  other.checkpoint.init_from = checkpoint_path(train_dir(), 2).string();
  other.checkpoint.train_dir = (directory_ / "other").string();
  other.optimizer.max_steps = 0;
  train(other);
  mpi_.barrier();
  EXPECT_TRUE(read_checkpoint(checkpoint_path(other.checkpoint.train_dir, 0)).variables == saved(2).variables);
}

TEST_F(TrainerTest, KeepsTheStateOfTheBestEvaluation) {
  options_.data.eval_files = {(directory_ / "test").string()};
  options_.data.eval_every = 1;
  options_.checkpoint.checkpoint_every = 1;
  options_.checkpoint.keep_checkpoints = 0;
  options_.optimizer.max_steps = 7;
  train();
  options_.optimizer.max_steps = 12;
  train();  // the resumed run must know the best evaluation of the first run
  mpi_.barrier();
  std::ifstream file(train_dir() / "metrics.jsonl");
  double highest = -1.0;
  std::int64_t best_step = 0, evaluations = 0;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("eval_precision")) continue;
    ++evaluations;
    if (record["eval_precision"] <= highest) continue;
    highest = record["eval_precision"];
    best_step = record["step"];
  }
  EXPECT_EQ(evaluations, 12);
  const CheckpointState best = read_checkpoint(best_checkpoint_path(train_dir()));
  EXPECT_EQ(best.global_step, best_step);
  EXPECT_TRUE(best.variables == saved(best_step).variables);
  EXPECT_EQ(nlohmann::json::parse(best.options_json).at("evaluation correct"), highest * 20);
}

/// The first run stops at step 3 without evaluations. The resumed run evaluates at step 3, although step 3 is no
/// multiple of eval_every. This evaluation must not end the run; the evaluation at step 4 must.
TEST_F(TrainerTest, AnEvaluationThatOnlyAResumedRunMakesDoesNotChangeItsResult) {
  options_.optimizer.max_steps = 3;
  train();
  options_.data.eval_files = {(directory_ / "test").string()};
  options_.data.eval_every = 2;
  options_.optimizer.max_steps = 12;
  options_.task.stop_at_accuracy = 0.01;
  train();
  EXPECT_EQ(list_checkpoints(train_dir()).front(), 4);
  EXPECT_EQ(read_checkpoint(best_checkpoint_path(train_dir())).global_step, 4);
}

TEST_F(TrainerTest, ResumesFromItsCheckpointLikeAnUninterruptedRun) {
  TrainOptions once = options_;
  once.checkpoint.train_dir = (directory_ / "once").string();
  train(once);
  const CheckpointState expected = read_checkpoint(checkpoint_path(once.checkpoint.train_dir, 12));

  options_.data.eval_files = {(directory_ / "test").string()};
  options_.optimizer.max_steps = 7;
  train();
  options_.optimizer.max_steps = 12;
  train();
  EXPECT_TRUE(saved(12).variables == expected.variables);
  EXPECT_TRUE(saved(12).moving_averages == expected.moving_averages);
  EXPECT_EQ(saved(12).stream_position, expected.stream_position);
  EXPECT_THAT(steps_with("loss"), ElementsAre(0, 5, 10));
  EXPECT_THAT(steps_with("eval_precision"), ElementsAre(7, 12));
}

TEST_F(TrainerTest, ResumesFromItsCheckpointWithLookahead) {
  options_.model.make = [](const NetworkSettings&) { return normalized_network(); };
  options_.optimizer.update.lookahead = {.every = 5, .decay = 0.7, .power = 3.0, .steps = 12};
  TrainOptions once = options_;
  once.checkpoint.train_dir = (directory_ / "once").string();
  once.checkpoint.checkpoint_every = 7;  // buffers are synchronised at step 7
  train(once);
  const CheckpointState expected = read_checkpoint(checkpoint_path(once.checkpoint.train_dir, 12));

  options_.optimizer.max_steps = 7;
  train();
  options_.optimizer.max_steps = 12;
  train();
  EXPECT_TRUE(saved(12).variables == expected.variables);
  EXPECT_TRUE(saved(12).moving_averages == expected.moving_averages);
  EXPECT_TRUE(saved(12).buffers == expected.buffers);
  EXPECT_TRUE(saved(12).optimizer == expected.optimizer);
}

TEST_F(TrainerTest, LeavesAFinishedRunAsItIs) {
  train();
  mpi_.barrier();
  const std::string metrics = read_text(train_dir() / "metrics.jsonl");
  const std::size_t entries = entry_count(train_dir());
  EXPECT_EQ(train(), ExitCode::done);
  EXPECT_EQ(read_text(train_dir() / "metrics.jsonl"), metrics);
  EXPECT_EQ(entry_count(train_dir()), entries);
}

TEST_F(TrainerTest, TakesTheLastEvaluationThatAKilledRunLeft) {
  options_.data.eval_files = {(directory_ / "test").string()};
  train();
  mpi_.barrier();
  const std::string metrics = read_text(train_dir() / "metrics.jsonl");
  const std::string without_evaluation = metrics.substr(0, metrics.find_last_of('\n', metrics.size() - 2) + 1);
  for (const std::string& left :
       // The run is killed before the evaluation is logged, or between the log and the best checkpoint.
       {without_evaluation, metrics}) {
    mpi_.barrier();
    if (mpi_.rank() == 0) {
      write_text(train_dir() / "metrics.jsonl", left);
      std::filesystem::remove(best_checkpoint_path(train_dir()));
    }
    mpi_.barrier();
    EXPECT_EQ(train(), ExitCode::done);
    mpi_.barrier();
    EXPECT_THAT(steps_with("loss"), ElementsAre(0, 5, 10));
    EXPECT_THAT(steps_with("eval_precision"), ElementsAre(12));
    EXPECT_EQ(read_checkpoint(best_checkpoint_path(train_dir())).global_step, 12);
  }
  const std::size_t entries = entry_count(train_dir());
  mpi_.barrier();
  EXPECT_EQ(train(), ExitCode::done);
  EXPECT_EQ(entry_count(train_dir()), entries);  // the run must not even write an event file
}

TEST_F(TrainerTest, WritesTheInitialCheckpointAlone) {
  options_.optimizer.max_steps = 0;
  options_.data.eval_files = {(directory_ / "test").string()};
  EXPECT_EQ(train(), ExitCode::done);
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(0));
  EXPECT_THAT(steps_with("eval_precision"), IsEmpty());
}

TEST_F(TrainerTest, PrintsTheTimesOfALongRun) {
  options_.data.eval_files = {(directory_ / "test").string()};
  ::testing::internal::CaptureStdout();
  train(options_, Trainer::Clock::now() - std::chrono::seconds(20000));
  const std::string told = ::testing::internal::GetCapturedStdout();
  if (mpi_.rank() > 0) return;
  EXPECT_THAT(told, HasSubstr("\nsteps                    12  from 0 to 12\n"));
  EXPECT_THAT(told, ContainsRegex("\nstart            2[0-9]{4}\\."));  // allows up to 9,999 s for this test
  EXPECT_THAT(told, Not(HasSubstr("inf")));                             // images/s is finite, because steps take time
  EXPECT_EQ(told.find(fmt::format("mean of {} ranks", mpi_.size())) != told.npos, mpi_.size() > 1);
}

TEST_F(TrainerTest, EndsAllRanksAlikeWhenAnUnloggedLossIsNotFinite) {
  options_.optimizer.schedule.learning_rate = 1e30;
  options_.logging.log_every = 0;
  const Failure failed = failure(options_);
  EXPECT_EQ(failed.code, ExitCode::failed);
  if (mpi_.rank() == 0) {
    EXPECT_THAT(failed.text, HasSubstr("Model diverged with loss = "));
  }
  EXPECT_THAT(list_checkpoints(train_dir()), IsEmpty());
}

/// Decodes as `decoder` does before stream position `end`. From this position on, calls `failure`.
class EndingDecoder final : public RecordDecoder {
 public:
  EndingDecoder(std::unique_ptr<RecordDecoder> decoder, std::uint64_t end, std::function<void()> failure)
      : RecordDecoder(decoder->image_shape(), decoder->target_spec()),
        decoder_(std::move(decoder)),
        end_(end),
        failure_(std::move(failure)) {}

  void decode(std::span<const std::uint8_t> record, std::uint64_t position, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    if (position >= end_) failure_();
    decoder_->decode(record, position, image, target);
  }
  bool draws() const override { return true; }  // otherwise a cache would decode all records at the start

 private:
  std::unique_ptr<RecordDecoder> decoder_;
  std::uint64_t end_;
  std::function<void()> failure_;
};

/// All ranks fail in the same step. The run must still save its state after the previous step.
TEST_F(TrainerTest, SavesTheLastStepWhateverErrorEndsIt) {
  options_.data.batch_size = 16;
  // Step 5 decodes this position; the start decodes positions below 60.
  const std::uint64_t end = 5 * 16 * static_cast<std::uint64_t>(mpi_.size());
  const auto decoder = options_.data.record_form.make_decoder;
  const auto expect_saved = [&](const std::function<void()>& thrown, ExitCode code, const std::string& text) {
    options_.data.record_form.make_decoder = [&](RecordSchema schema, RecordUse use) {
      return std::make_unique<EndingDecoder>(decoder(std::move(schema), use), end, thrown);
    };
    options_.checkpoint.train_dir = (directory_ / text).string();
    const Failure failed = failure(options_);
    EXPECT_EQ(failed.code, code);
    if (mpi_.rank() != 0) return;
    EXPECT_THAT(failed.text, HasSubstr(text));
    EXPECT_THAT(failed.text, HasSubstr("; saved step 5 in "));
    EXPECT_EQ(saved(5).global_step, 5);
  };
  expect_saved([] { fail(ExitCode::io, "no disk"); }, ExitCode::io, "no disk");
  expect_saved([] { throw std::runtime_error("a library failed"); }, ExitCode::failed, "a library failed");
  expect_saved([] { throw std::bad_alloc(); }, ExitCode::failed, "out of memory");
}

TEST_F(TrainerTest, RefusesRecordsThatDifferBetweenRanks) {
  if (mpi_.rank() == 0) {
    std::string other;
    for (int i = 0; i < 60; ++i) append_record(other, mnist_example(i + 1, i % 10));
    std::filesystem::create_directory(directory_ / "other");
    write_text(directory_ / "other" / "train", other);
  }
  mpi_.barrier();
  if (mpi_.rank() > 0 && mpi_.rank() == mpi_.size() - 1)
    options_.data.files = {(directory_ / "other" / "train").string()};
  const Failure failed = failure(options_);
  EXPECT_EQ(failed.code, mpi_.size() == 1 ? ExitCode::done : ExitCode::usage);
  if (mpi_.rank() == 0 && mpi_.size() > 1) {
    EXPECT_THAT(failed.text, HasSubstr("training record checksum"));
  }
}

TEST_F(TrainerTest, ResumesOnlyAsRequested) {
  options_.checkpoint.resume = ResumeMode::require;
  EXPECT_EQ(failure(options_).code, ExitCode::no_input);
  options_.checkpoint.resume = ResumeMode::never;
  EXPECT_EQ(failure(options_).code, ExitCode::done);
  options_.optimizer.max_steps = 20;
  EXPECT_EQ(failure(options_).code, ExitCode::usage);
  options_.checkpoint.fresh = true;
  EXPECT_EQ(failure(options_).code, ExitCode::done);
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(20));
}

/// The checkpoints after the best state must remain until the run has passed all checks.
TEST_F(TrainerTest, ContinuesFromTheBestStateAndThenRemovesLaterCheckpoints) {
  options_.checkpoint.checkpoint_every = 4;
  train();
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(12, 8, 4));
  const auto set_best = [&](const std::string& model) {
    if (mpi_.rank() == 0) {
      CheckpointState best = saved(8);
      best.model = model;
      write_checkpoint(best_checkpoint_path(train_dir()), best);
    }
    mpi_.barrier();
  };
  set_best("another");
  options_.checkpoint.resume = ResumeMode::best;
  EXPECT_EQ(failure(options_).code, ExitCode::data);
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(12, 8, 4));
  set_best(saved(8).model);
  if (mpi_.rank() == 0) std::filesystem::remove(checkpoint_path(train_dir(), 8));
  mpi_.barrier();
  options_.optimizer.max_steps = 9;
  train(options_);
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(9, 8, 4));
  EXPECT_EQ(steps_with("loss").back(), 5) << "the next logged step would be 10";
}

/// Steps at a high learning rate make the network worse than the fit of its last layer.
TEST_F(TrainerTest, KeepsTheStateAfterTheHeadFitIfNoLaterStateIsBetter) {
  options_.data.eval_files = options_.data.files;
  options_.data.eval_every = 4;
  options_.checkpoint.fit_head = true;
  options_.optimizer.schedule.learning_rate = 3.0;
  train();
  EXPECT_EQ(read_checkpoint(best_checkpoint_path(train_dir())).global_step, 0);
  EXPECT_THAT(steps_with("eval_precision"), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(steps_with("evaluation_seconds"), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(steps_with("head_fit_records"), ElementsAre(0));
}

TEST_F(TrainerTest, EndsAHeadFitAndAllStepsIfTheTimeIsOver) {
  options_.data.evaluation_batch = 4;
  options_.checkpoint.fit_head = true;
  options_.optimizer.time_budget = 1e-6;
  train();
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(1));
  std::ifstream file(train_dir() / "metrics.jsonl");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("head_fit_records"), 4 * mpi_.size());
  std::getline(file, line);  // the first plan
  EXPECT_GE(nlohmann::json::parse(line).at("schedule_step"), 11.0) << "a low rate: near the end of the schedule";
}

TEST_F(TrainerTest, TakesVariablesButNotAveragesFromAnotherRunsCheckpoint) {
  train();
  TrainOptions second = options_;
  second.checkpoint.init_from = checkpoint_path(train_dir(), 12).string();
  second.checkpoint.train_dir = (directory_ / "second").string();
  second.optimizer.max_steps = 0;
  train(second);
  const CheckpointState initial = read_checkpoint(checkpoint_path(second.checkpoint.train_dir, 0));
  EXPECT_TRUE(initial.variables == saved(12).variables);
  EXPECT_TRUE(initial.moving_averages == saved(12).variables);
}

/// The input density in the settings from which a network was last made. The variable is global, because make_network
/// is a function without state.
float reported_density = 0.0f;

TEST_F(TrainerTest, PassesTheRecordsDensityToTheNetwork) {
  options_.model.make = [](const NetworkSettings& settings) {
    reported_density = settings.density;
    return mnist_network(settings);
  };
  train();
  EXPECT_FLOAT_EQ(reported_density, 59.0f / 60.0f);  // one of 60 images is black
}

TEST_F(TrainerTest, RefusesAnotherModelsCheckpoint) {
  train();
  options_.model.name = "lenet";
  options_.optimizer.max_steps = 20;
  const Failure failed = failure(options_);
  EXPECT_EQ(failed.code, ExitCode::data);
  if (mpi_.rank() == 0) {
    EXPECT_THAT(failed.text, HasSubstr("is of model 'mnist', this run trains 'lenet'"));
  }
}

}  // namespace
}  // namespace carillon::testing
