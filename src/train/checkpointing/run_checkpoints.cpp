#include "src/train/checkpointing/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_bounds.h"
#include "src/cli/options/option_values.h"
#include "src/report/console.h"
#include "src/train/checkpointing/best_checkpoint.h"
#include "src/train/checkpointing/training_state.h"

namespace carillon {

std::unique_ptr<DirectoryLock> lock_train_directory(const std::filesystem::path& train_dir, const Mpi& mpi) {
  std::unique_ptr<DirectoryLock> lock;
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    lock = std::make_unique<DirectoryLock>(train_dir, print_warning);
    remove_stale_temporaries(train_dir);
  });
  return lock;
}

void remove_run_files(const std::filesystem::path& train_dir) {
  std::vector<std::filesystem::path> ours{train_dir / "metrics.jsonl", best_checkpoint_path(train_dir)};
  for (const std::int64_t step : list_checkpoints(train_dir)) ours.push_back(checkpoint_path(train_dir, step));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(train_dir, error)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) ours.push_back(entry.path());
  }
  if (error) fail(ExitCode::io, "--fresh: cannot list {}: {}", train_dir.string(), error.message());
  for (const std::filesystem::path& path : ours) remove_file(path);
}

namespace {

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string check_free_space(const std::filesystem::path& directory, const SpaceNeeded& needed) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error || space.capacity == 0) return {};
  const std::uint64_t available = space.available;
  if (available < needed.checkpoint_bytes) {
    fail(ExitCode::io, "--train-dir {}: {:.1f} MiB are free, a checkpoint takes {:.1f} MiB", directory.string(),
         mib(available), mib(needed.checkpoint_bytes));
  }
  const double all = mib(needed.checkpoint_bytes) * static_cast<double>(needed.count);
  if (mib(available) >= all) return {};
  return fmt::format("--train-dir {}: {:.1f} MiB are free, the {} checkpoints to come take {:.1f} MiB",
                     directory.string(), mib(available), needed.count, all);
}

namespace {

constexpr std::chrono::seconds first_pause{1}, longest_pause{60};

std::chrono::seconds pause_after(std::int64_t failures, std::chrono::seconds longest) {
  constexpr std::int64_t max_doublings = 6;  // 2^6 s is above longest_pause
  return std::min(longest, first_pause * (1 << std::min(failures - 1, max_doublings)));
}

}  // namespace

CheckpointSaver::CheckpointSaver(std::unique_ptr<CheckpointWriter> writer, Settings settings)
    : settings_(std::move(settings)), writer_(std::move(writer)) {}

void CheckpointSaver::start(CheckpointState state) {
  if (is_writing_) take_result(Clock::now(), longest_pause);
  failed_.reset();
  writer_->start(std::move(state));
  is_writing_ = true;
}

void CheckpointSaver::poll(Clock::time_point now) {
  if (is_writing_ && writer_->is_done()) take_result(now, longest_pause);
  if (failed_ && !given_up_ && now >= retry_at_) start_again();
}

void CheckpointSaver::start_again() {
  failed_.reset();
  writer_->start_again();
  is_writing_ = true;
}

void CheckpointSaver::take_result(Clock::time_point now, std::chrono::seconds max_pause) {
  is_writing_ = false;
  try {
    writer_->wait();
    failures_ = 0;
  } catch (const Error& error) {
    failed_ = error;
    if (++failures_ > settings_.max_failures) {
      if (!given_up_) given_up_ = error;
      return;
    }
    const std::chrono::seconds pause = pause_after(failures_, max_pause);
    retry_at_ = now + pause;
    settings_.warn(fmt::format("{}; next attempt in {} s (failure {} of --checkpoint-failures {} in a row)",
                               error.what(), pause.count(), failures_, settings_.max_failures));
  }
}

void CheckpointSaver::finish() {
  for (;;) {
    if (is_writing_) take_result(Clock::now(), first_pause);  // the run waits for it
    if (!failed_) return;
    if (failures_ > settings_.max_failures) throw Error(*failed_);
    std::this_thread::sleep_for(first_pause);
    start_again();
  }
}

namespace {

/// The size of a checkpoint of the tower, and how many further checkpoints the run will keep at a time.
SpaceNeeded space_needed(const CheckpointOptions& options, std::int64_t steps, bool evaluates, const Tower& tower) {
  steps = std::max<std::int64_t>(steps, 1);
  std::int64_t count = options.checkpoint_every > 0 ? (steps - 1) / options.checkpoint_every + 1 : 1;
  if (options.keep_checkpoints > 0) {  // the newest is complete before the oldest is removed
    const auto present = static_cast<std::int64_t>(list_checkpoints(options.train_dir).size());
    const std::int64_t besides = options.keep_every > 0 ? steps / options.keep_every : 0;
    count = std::min(count, std::max<std::int64_t>(options.keep_checkpoints + 1 - present, 1) + besides);
  }
  if (options.keep_best && evaluates) count += 1;
  return {.checkpoint_bytes = checkpoint_bytes(tower.saved_floats()), .count = count};
}

}  // namespace

RunCheckpoints::RunCheckpoints(const CheckpointOptions& options, const ModelOptions& model, const TaskScore& task_score,
                               const RunDescription& description, const Mpi& mpi,
                               std::function<void(const std::string&)> warn)
    : options_(options),
      model_(model),
      task_score_(task_score),
      description_(description),
      mpi_(mpi),
      warn_(std::move(warn)) {
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    const CheckpointRetention kept{.newest = options.keep_checkpoints, .every = options.keep_every};
    const CheckpointSaver::Settings settings{.max_failures = options.checkpoint_failures, .warn = warn_};
    writers_.emplace(Writers{{std::make_unique<CheckpointWriter>(options.train_dir, kept), settings},
                             {std::make_unique<CheckpointWriter>(best_checkpoint_path(options.train_dir)), settings}});
  });
}

void RunCheckpoints::check_bounds(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
                                  const Tower& tower) const {
  mpi_.run_on_all([&] {
    if (writers_) check_limits(start, max_steps, global_batch, tower);
  });
}

void RunCheckpoints::check_limits(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
                                  const Tower& tower) const {
  static_assert(max_option_steps <= max_global_step);
  const CheckpointBounds bounds(ExitCode::usage, "no program could load the checkpoints of this run");
  Score longest = task_score_.form();
  longest.value = std::numeric_limits<double>::lowest();
  if (longest.ratio) longest.ratio->part = longest.ratio->whole = std::numeric_limits<std::int64_t>::max();
  bounds.check_options(with_score(description_, longest).json());
  for (const ParameterSpec& spec : tower.parameters().specs()) bounds.check_array(spec.name, spec.shape.extents());
  for (const BufferSpec& spec : tower.buffers().specs()) bounds.check_array(spec.name, spec.shape.extents());
  const auto steps = static_cast<std::uint64_t>(std::max<std::int64_t>(max_steps - start.step, 0));
  std::uint64_t end = 0;
  const bool overflows = __builtin_mul_overflow(steps, static_cast<std::uint64_t>(global_batch), &end) ||
                         __builtin_add_overflow(end, start.stream_position, &end);
  const CheckpointBounds last(
      start.resumed ? ExitCode::data : ExitCode::usage,
      fmt::format(
          "the checkpoint of step {} could not be loaded: stream_position is {} at step {}, and a step takes {} "
          "samples",
          max_steps, start.stream_position, start.step, global_batch));
  last.check_position(std::max(max_steps, start.step), overflows ? ~std::uint64_t{0} : end);
}

void RunCheckpoints::check_space(std::int64_t steps, bool evaluates, const Tower& tower) const {
  mpi_.run_on_all([&] {
    if (!writers_) return;
    const std::string line = check_free_space(options_.train_dir, space_needed(options_, steps, evaluates, tower));
    if (!line.empty()) warn_(line);
  });
}

CheckpointState RunCheckpoints::state(const RunPosition& position, const Tower& tower, std::string options_json) const {
  CheckpointState state = state_at(position, model_, std::move(options_json));
  tower.save(state);
  check_finite(state);
  return state;
}

void RunCheckpoints::save(const RunPosition& position, const Tower& tower) {
  if (!writers_) return;
  writers_->of_steps.start(state(position, tower, description_.json()));
  start_clock();
}

void RunCheckpoints::keep_if_best(const RunPosition& position, const Score& score, const Tower& tower) {
  if (!writers_ || has_kept(score, tower)) return;
  best_ = {position.step, score};
  writers_->of_best.start(state(position, tower, with_score(description_, score).json()));
}

bool RunCheckpoints::has_kept(const Score& score, const Tower& tower) {
  if (!options_.keep_best) return true;
  if (!best_ && !std::exchange(has_read_best_, true)) {
    best_ =
        best_score(options_.train_dir, max_checkpoint_bytes(tower.network()), task_score_.form(), description_, warn_);
  }
  return best_ && !task_score_.is_better(score, best_->score);
}

ControlFlags RunCheckpoints::poll(Clock::time_point now) {
  if (!writers_) return {};
  writers_->of_steps.poll();
  writers_->of_best.poll();
  return {.save = is_due(now), .give_up = given_up().has_value()};
}

const std::optional<Error>& RunCheckpoints::given_up() const {
  return writers_->of_steps.given_up() ? writers_->of_steps.given_up() : writers_->of_best.given_up();
}

bool RunCheckpoints::is_due(Clock::time_point now) const {
  const std::int64_t every = options_.checkpoint_every_seconds;
  return every > 0 && now - saved_at_ >= std::chrono::seconds(every);
}

void RunCheckpoints::finish(const RunPosition& position, ExitCode code) {
  mpi_.run_on_all([&] {
    if (!writers_) return;
    writers_->of_steps.finish();
    writers_->of_best.finish();
    if (code != ExitCode::io) return;
    fail(code, "{}; ended at step {}, with a checkpoint (--checkpoint-failures {})", given_up()->what(), position.step,
         options_.checkpoint_failures);
  });
}

}  // namespace carillon
