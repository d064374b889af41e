#include "src/train/checkpointing/training_state.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint_bounds.h"
#include "src/checkpoint/directory_lock.h"
#include "src/step/tensor_io.h"

namespace carillon {

std::uint64_t max_checkpoint_bytes(const Network& network) {
  constexpr std::uint64_t max_copies = 16;  // variables, averages, optimiser slots
  constexpr std::uint64_t other_bytes = (std::uint64_t{48} << 20) + max_text_bytes;
  const BuiltNetwork built = build_network(network, {1, Arithmetic::fp32, Purpose::evaluation});
  const std::uint64_t arrays = built.graph.parameters().size() + built.graph.buffers().size();
  std::uint64_t values = 0;
  for (const auto& spec : built.graph.parameters()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  for (const auto& spec : built.graph.buffers()) values += static_cast<std::uint64_t>(spec.shape.element_count());
  return max_copies * (values * sizeof(float) + arrays * max_array_overhead_bytes) + other_bytes;
}

namespace {

// Names in the description of a checkpoint that a LastStepSaver wrote.
constexpr const char* task_loss_name = "last step task loss";
constexpr const char* l2_loss_name = "last step l2 loss";

void check_arrays(const std::vector<NamedArray>& arrays, std::int64_t step) {
  if (const NamedArray* array = find_not_finite(arrays)) {
    fail(ExitCode::failed, "Model diverged: '{}' is not finite at step {}; no checkpoint was written", array->name,
         step);
  }
}

}  // namespace

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

std::optional<StepResult> stored_result(const CheckpointState& state) {
  const nlohmann::json json = nlohmann::json::parse(state.options_json, nullptr, false);
  const auto has_number = [&](const char* name) { return json.contains(name) && json[name].is_number(); };
  if (!json.is_object() || !has_number(task_loss_name) || !has_number(l2_loss_name)) return std::nullopt;
  return StepResult{.step = state.global_step - 1, .loss = json[task_loss_name], .l2_loss = json[l2_loss_name]};
}

void check_finite(const CheckpointState& state) {
  check_arrays(state.variables, state.global_step);
  check_arrays(state.moving_averages, state.global_step);
  for (const auto& [slot, arrays] : state.optimizer) check_arrays(arrays, state.global_step);
  check_arrays(state.buffers, state.global_step);
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
} catch (...) {  // no memory for the text
  return {};
}

}  // namespace carillon
