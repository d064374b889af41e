#include "src/train/checkpointing/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_format.h"
#include "src/checkpoint/directory_lock.h"
#include "src/cli/options/option_set.h"
#include "src/report/console.h"
#include "src/step/tensor_io.h"
#include "src/train/checkpointing/best_checkpoint.h"

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

namespace {

/// Returns the files of a run that --fresh removes, without the plan. Errors: io.
std::vector<std::filesystem::path> run_files(const std::filesystem::path& train_dir) {
  std::vector<std::filesystem::path> ours{train_dir / "metrics.jsonl", best_checkpoint_path(train_dir)};
  for (const std::int64_t step : list_checkpoints(train_dir)) ours.push_back(checkpoint_path(train_dir, step));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(train_dir, error)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) ours.push_back(entry.path());
  }
  if (error) fail(ExitCode::io, "--fresh: cannot list {}: {}", train_dir.string(), error.message());
  return ours;
}

}  // namespace

void remove_run_files(const std::filesystem::path& train_dir) {
  for (const std::filesystem::path& path : run_files(train_dir)) remove_file(path);
  remove_file(train_dir / plan_name);  // removed last, because checkpoints must not remain without their plan
}

void begin_next_plan(const std::filesystem::path& train_dir) {
  const std::filesystem::path next = train_dir / next_plan_name, next_settings = train_dir / next_plan_settings_name;
  std::error_code error;
  if (!std::filesystem::exists(next, error)) return;
  // The file with the next settings also keeps its old name, because a restart after a lost rank reads this file again.
  const std::string settings = read_plain_file(next_settings, next_settings.string(), OptionSet::max_config_bytes);
  write_file_atomically(train_dir / plan_settings_name, std::as_bytes(std::span(settings)));
  std::filesystem::rename(next, train_dir / plan_name, error);
  if (error) fail(ExitCode::io, "cannot replace {}: {}", (train_dir / plan_name).string(), error.message());
}

void save_best_as_checkpoint(const std::filesystem::path& train_dir, std::int64_t step) {
  const std::filesystem::path path = best_checkpoint_path(train_dir);
  std::error_code absent;
  if (!std::filesystem::exists(path, absent)) return;
  CheckpointState best = read_checkpoint(path);
  if (best.global_step == step) write_checkpoint(checkpoint_path(train_dir, step), std::move(best));
}

void remove_later_checkpoints(const std::filesystem::path& train_dir, std::int64_t step) {
  for (const std::int64_t later : list_checkpoints(train_dir)) {
    if (later > step) remove_file(checkpoint_path(train_dir, later));
  }
}

namespace {

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string check_free_space(const std::filesystem::path& directory, const SpaceNeeded& needed) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error || space.capacity == 0) return {};
  const std::uint64_t available = space.available + needed.freed_bytes;
  if (available < needed.checkpoint_bytes) {
    fail(ExitCode::io, "--train-dir {}: {:.1f} MiB are free, a checkpoint takes {:.1f} MiB", directory.string(),
         mib(available), mib(needed.checkpoint_bytes));
  }
  const double all = mib(needed.checkpoint_bytes) * static_cast<double>(needed.count);
  if (mib(available) >= all) return {};
  return fmt::format("--train-dir {}: {:.1f} MiB are free, the {} checkpoints to come take {:.1f} MiB",
                     directory.string(), mib(available), needed.count, all);
}

std::uint64_t max_checkpoint_bytes(const Network& network) {
  constexpr std::uint64_t max_copies = 16;  // variables, moving averages, optimiser slots
  constexpr std::uint64_t other_bytes = (std::uint64_t{48} << 20) + max_text_bytes;
  const BuiltNetwork built = build_network(network, {1, Arithmetic::fp32, Purpose::evaluation});
  const std::uint64_t arrays = built.graph.parameters().size() + built.graph.buffers().size();
  std::uint64_t values = 0;
  for (const auto& spec : built.graph.parameters()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  for (const auto& spec : built.graph.buffers()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  return max_copies * (values * sizeof(float) + arrays * max_array_overhead_bytes) + other_bytes;
}

namespace {

// Names in the description of a checkpoint. If they are present, a LastStepSaver wrote the checkpoint.
constexpr const char* task_loss_name = "last step task loss";
constexpr const char* l2_loss_name = "last step l2 loss";

}  // namespace

std::optional<StepResult> stored_result(const CheckpointState& state) {
  const nlohmann::json json = nlohmann::json::parse(state.options_json, nullptr, false);
  const auto has_number = [&](const char* name) { return json.contains(name) && json[name].is_number(); };
  if (!json.is_object() || !has_number(task_loss_name) || !has_number(l2_loss_name)) return std::nullopt;
  return StepResult{.step = state.global_step - 1, .loss = json[task_loss_name], .l2_loss = json[l2_loss_name]};
}

namespace {

/// Returns a CheckpointState with empty arrays and all other members.
CheckpointState state_at(const RunPosition& position, const ModelOptions& model, std::string options_json) {
  return {.model = model.name,
          .global_step = position.step,
          .seed = model.seed,
          .stream_position = position.stream_position,
          .options_json = std::move(options_json),
          .variables = {},
          .moving_averages = {},
          .optimizer = {},
          .buffers = {}};
}

void check_arrays(const std::vector<NamedArray>& arrays, std::int64_t step) {
  if (const NamedArray* array = find_not_finite(arrays)) {
    fail(ExitCode::failed, "Model diverged: '{}' is not finite at step {}; no checkpoint was written", array->name,
         step);
  }
}

/// Checks that all values are finite. Errors: failed (a value is not finite; the message names its array).
void check_finite(const CheckpointState& state) {
  check_arrays(state.variables, state.global_step);
  check_arrays(state.moving_averages, state.global_step);
  for (const auto& [slot, arrays] : state.optimizer) check_arrays(arrays, state.global_step);
  check_arrays(state.buffers, state.global_step);
}

/// Returns the size of a checkpoint of the tower, and how many further checkpoints the run will keep at a time.
SpaceNeeded space_needed(const CheckpointOptions& options, std::int64_t steps, bool evaluates, const Tower& tower) {
  steps = std::max<std::int64_t>(steps, 1);
  std::int64_t count = options.checkpoint_every > 0 ? (steps - 1) / options.checkpoint_every + 1 : 1;
  if (options.keep_checkpoints > 0) {  // the newest checkpoint is complete before the oldest one is removed
    const auto present = options.fresh ? 0 : static_cast<std::int64_t>(list_checkpoints(options.train_dir).size());
    const std::int64_t besides = options.keep_every > 0 ? steps / options.keep_every : 0;
    count = std::min(count, std::max<std::int64_t>(options.keep_checkpoints + 1 - present, 1) + besides);
  }
  if (options.keep_best && evaluates) count += 1;
  std::uint64_t freed_bytes = 0;
  if (options.fresh) {
    for (const std::filesystem::path& path : run_files(options.train_dir)) {
      freed_bytes += stamp_of(path).value_or(FileStamp{}).bytes;
    }
  }
  return {.checkpoint_bytes = checkpoint_bytes(tower.saved_floats()), .count = count, .freed_bytes = freed_bytes};
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
    const CheckpointRetries retries{
        .max_failures = options.checkpoint_failures, .limit_name = "--checkpoint-failures", .warn = warn_};
    writers_.emplace(Writers{CheckpointWriter(options.train_dir, kept, retries),
                             CheckpointWriter(best_checkpoint_path(options.train_dir), retries)});
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

LastStepSaver::LastStepSaver(const Training& training, StallDetector& stall_detector)
    : training_(training), stall_detector_(stall_detector) {
  stall_detector_.save_before_exit({.is_updating = [this] { return !training_.tower.holds_whole_step(); },
                                    .stop_updates = [this] { return training_.tower.stop_updates(); },
                                    .save = [this] { return save(); }});
}

void LastStepSaver::note(const StepResult& result) {
  const std::lock_guard lock(result_mutex_);
  result_ = result;
}

std::string LastStepSaver::description_at(const RunPosition& position) const {
  RunDescription description = training_.description;
  const std::lock_guard lock(result_mutex_);
  if (result_ && result_->step == position.step - 1) {
    description.add(task_loss_name, result_->loss, Scope::run);
    description.add(l2_loss_name, result_->l2_loss, Scope::run);
  }
  return description.json();
}

void LastStepSaver::stop() {
  is_stopped_ = true;
  stall_detector_.save_before_exit({});
}

void LastStepSaver::expect_checkpoint(std::int64_t step) {
  std::error_code unknown;
  const bool exists = std::filesystem::exists(checkpoint_path(training_.options.train_dir, step), unknown);
  expected_checkpoint_ = exists ? -1 : step;
}

std::string LastStepSaver::write(const RunPosition& position) const {
  const std::filesystem::path& directory = training_.options.train_dir;
  if (!std::filesystem::is_directory(directory)) return {};
  const std::filesystem::path path = checkpoint_path(directory, position.step);
  const std::string saved = fmt::format("; saved step {} in {}", position.step, path.string());
  if (expected_checkpoint_ == position.step && std::filesystem::exists(path)) return saved;
  std::optional<DirectoryLock> lock;
  if (training_.mpi.rank() != 0 && stall_detector_.has_ended(0)) lock.emplace(directory);
  CheckpointState state = state_at(position, training_.model, description_at(position));
  training_.tower.save_whole_step(state);
  check_finite(state);
  write_checkpoint(path, std::move(state));
  return saved;
}

std::string LastStepSaver::save() const noexcept try {
  const std::int64_t steps = training_.tower.completed_steps();
  if (is_stopped_ || steps == 0 || !training_.tower.holds_whole_step()) return {};
  RunPosition position = training_.first;
  position.step += steps;
  position.stream_position += static_cast<std::uint64_t>(steps) * training_.global_batch;
  try {
    return write(position);
  } catch (const std::exception& error) {
    return fmt::format("; step {} is not saved: {}", position.step, error.what());
  }
} catch (...) {  // there is not enough memory for the text
  return {};
}

}  // namespace carillon
