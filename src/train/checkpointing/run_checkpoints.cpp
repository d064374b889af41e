#include "src/train/checkpointing/run_checkpoints.h"

#include <algorithm>
#include <utility>

#include "src/checkpoint/checkpoint_bounds.h"
#include "src/cli/options/option_values.h"
#include "src/train/checkpointing/best_checkpoint.h"
#include "src/train/checkpointing/checkpoint_size.h"
#include "src/train/checkpointing/free_space.h"
#include "src/train/checkpointing/training_state.h"

namespace carillon {
namespace {

/// The size of a checkpoint of the tower, and how many more of them the run will keep at a time.
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
                               const RunDescription& description, std::function<void(const std::string&)> warn)
    : options_(options),
      model_(model),
      task_score_(task_score),
      description_(description),
      warn_(std::move(warn)),
      of_steps_(
          std::make_unique<CheckpointWriter>(
              options.train_dir, CheckpointRetention{.newest = options.keep_checkpoints, .every = options.keep_every}),
          {.max_failures = options.checkpoint_failures, .warn = warn_}),
      of_best_(std::make_unique<CheckpointWriter>(best_checkpoint_path(options.train_dir)),
               {.max_failures = options.checkpoint_failures, .warn = warn_}) {}

void RunCheckpoints::check_bounds(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
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
  const std::string line = check_free_space(options_.train_dir, space_needed(options_, steps, evaluates, tower));
  if (!line.empty()) warn_(line);
}

CheckpointState RunCheckpoints::state(const RunPosition& position, const Tower& tower, std::string options_json) const {
  CheckpointState state = state_at(position, model_, std::move(options_json));
  tower.save(state);
  check_finite(state);
  return state;
}

void RunCheckpoints::save(const RunPosition& position, const Tower& tower) {
  of_steps_.start(state(position, tower, description_.json()));
  start_clock();
}

void RunCheckpoints::keep_if_best(const RunPosition& position, const Score& score, const Tower& tower) {
  if (has_kept(score, tower)) return;
  best_ = {position.step, score};
  of_best_.start(state(position, tower, with_score(description_, score).json()));
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
  of_steps_.poll();
  of_best_.poll();
  return {.save = is_due(now), .give_up = given_up().has_value()};
}

const std::optional<Error>& RunCheckpoints::given_up() const {
  return of_steps_.given_up() ? of_steps_.given_up() : of_best_.given_up();
}

bool RunCheckpoints::is_due(Clock::time_point now) const {
  const std::int64_t every = options_.checkpoint_every_seconds;
  return every > 0 && now - saved_at_ >= std::chrono::seconds(every);
}

void RunCheckpoints::finish(const RunPosition& position, ExitCode code) {
  of_steps_.finish();
  of_best_.finish();
  if (code != ExitCode::io) return;
  fail(code, "{}; ended at step {}, with a checkpoint (--checkpoint-failures {})", given_up()->what(), position.step,
       options_.checkpoint_failures);
}

}  // namespace carillon
