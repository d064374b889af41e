#include "src/train/checkpointing/run_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/models/pretrained.h"
#include "src/report/console.h"
#include "src/train/checkpointing/best_checkpoint.h"
#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/checkpointing/torch_weights.h"

namespace carillon {
namespace {

std::vector<float> first_values(const ParameterSpec& spec, std::uint64_t seed, const std::vector<GivenValues>& given) {
  const auto own = std::ranges::find(given, spec.name, &GivenValues::variable);
  return own == given.end() ? initial_values(spec, seed) : own->values;
}

/// Excludes the variables and buffers with names that match one of `patterns`: replaces their values in `checkpoint` by
/// initial values. `checkpoint` need not contain these arrays. Initial values of variables are `given` or drawn from
/// `seed`. Patterns are shell patterns, in which `*` also matches `/`. Returns the names of the excluded variables and
/// buffers. Errors: usage (a pattern matches no variable; the message lists all variables).
std::vector<std::string> exclude(const std::vector<std::string>& patterns, const ParameterStore& parameters,
                                 const BufferStore& buffers, std::uint64_t seed, const std::vector<GivenValues>& given,
                                 CheckpointState& checkpoint) {
  check_patterns("--init-exclude", patterns, parameters.specs());
  const auto is_excluded = [&](const NamedArray& array) { return matches_any(patterns, array.name); };
  std::erase_if(checkpoint.variables, is_excluded);
  std::erase_if(checkpoint.buffers, is_excluded);
  std::vector<std::string> names;
  for (const ParameterSpec& spec : parameters.specs()) {
    if (!matches_any(patterns, spec.name)) continue;
    checkpoint.variables.push_back({spec.name, spec.shape.extents(), first_values(spec, seed, given)});
    names.push_back(spec.name);
  }
  for (const BufferSpec& spec : buffers.specs()) {
    if (!matches_any(patterns, spec.name)) continue;
    const auto count = static_cast<std::size_t>(spec.shape.element_count());
    checkpoint.buffers.push_back({spec.name, spec.shape.extents(), std::vector<float>(count, spec.initial_value)});
    names.push_back(spec.name);
  }
  return names;
}

/// Returns the network's initial values that are not random. These values come from the network's file, or are computed
/// from the images of `dataset`.
std::vector<GivenValues> given_values(const Network& network, const Dataset* dataset) {
  std::vector<GivenValues> given;
  if (network.given) given = *network.given;
  for (const ValuesOfData& wanted : network.values_of_data) {
    check(dataset != nullptr, "initial values that depend on data need a dataset");
    const std::size_t count = std::min(dataset->size(), static_cast<std::size_t>(wanted.max_records));
    const std::size_t bytes = dataset->image_bytes();
    std::vector<std::uint8_t> memory(count * bytes);
    std::vector<const std::uint8_t*> images;
    std::vector<std::byte> target(dataset->target_bytes());
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<std::uint8_t> image = std::span(memory).subspan(i * bytes, bytes);
      dataset->read(i, i, image, target);
      images.push_back(image.data());
    }
    given.push_back({wanted.variable, wanted.compute(images)});
  }
  return given;
}

/// Resizes the position embeddings of a vision transformer that was trained at another image size.
void fit_positions(const std::vector<ParameterSpec>& specs, std::vector<NamedArray>& variables) {
  for (const ParameterSpec& spec : specs) {
    const auto trained = std::ranges::find(variables, spec.name, &NamedArray::name);
    const std::vector<std::int64_t> shape = spec.shape.extents();
    if (!spec.is_embedding || trained == variables.end() || trained->shape == shape) continue;
    if (!are_position_grids(trained->shape, shape)) continue;
    trained->values = resized_positions(trained->values, trained->shape, shape);
    trained->shape = shape;
  }
}

/// Loads the file that --init-from names: a checkpoint, or a file with PyTorch's weights.
LoadedCheckpoint initial_state(const CheckpointOptions& options, const Tower& tower, std::uint64_t max_bytes) {
  if (!is_weight_file(options.init_from)) {
    LoadedCheckpoint loaded = find_checkpoint(options.init_from, print_warning, max_bytes);
    fit_positions(tower.parameters().specs(), loaded.state.variables);
    return loaded;
  }
  return {options.init_from,
          read_weight_file(options.init_from, tower.network(), tower.parameters().specs(), tower.buffers().specs(),
                           options.init_exclude,
                           [](const std::string& line) { print_text(STDOUT_FILENO, printable(line) + "\n"); })};
}

std::string initialized_line(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded) {
  const std::size_t arrays = initial.state.variables.size() + initial.state.buffers.size();
  std::string line =
      fmt::format("initialized from {}: {} arrays", printable(initial.path.string()), arrays - excluded.size());
  if (!excluded.empty()) {
    line += fmt::format(", without the variables of --init-exclude: {}",
                        printable(fmt::format("{}", fmt::join(excluded, ", "))));
  }
  return line;
}

/// Returns a warning if the checkpoint was trained with another --preprocessing, otherwise an empty text.
std::string preprocessing_warning(const LoadedCheckpoint& initial, const RunDescription& description) {
  const auto preprocessing = [](const std::string& json) {
    const nlohmann::json options = nlohmann::json::parse(json, nullptr, false);
    return options.is_object() && options.contains("preprocessing") ? options["preprocessing"].dump() : "";
  };
  const std::string trained = preprocessing(initial.state.options_json), own = preprocessing(description.json());
  if (trained.empty() || own.empty() || trained == own) return {};
  return fmt::format("{} was trained with --preprocessing {}, and this run has {}", printable(initial.path.string()),
                     printable(trained), own);
}

}  // namespace

void print_initialized(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded,
                       const RunDescription& description) {
  print_text(STDOUT_FILENO, initialized_line(initial, excluded) + "\n");
  const std::string warning = preprocessing_warning(initial, description);
  if (!warning.empty()) print_warning(warning);
}

namespace {

/// Checks that the checkpoint belongs to `model`. `other_way`: advice at the end of the message. Errors: data (it
/// belongs to another model).
void check_model(const LoadedCheckpoint& loaded, const ModelOptions& model, std::string_view other_way) {
  if (loaded.state.model == model.name) return;
  const std::string trained = printable(loaded.state.model);
  fail(ExitCode::data, "{}: is of model '{}', this run trains '{}': set --model {}, or choose another {}",
       loaded.path.string(), trained, model.name, trained, other_way);
}

/// Initializes the tower of rank 0 according to --init-from, --init-exclude and --seed. Prints a line about
/// --init-from, and a warning if the checkpoint of --init-from was trained with another --preprocessing than the run of
/// `description`. `dataset`: training set for initial values that depend on data; null: the network has none. Errors:
/// usage (--init-exclude matches no variable; the message lists all variables), no_input (the file of --init-from is
/// missing), data (the file is damaged or belongs to another model), io.
void initialize(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                const RunDescription& description, Tower& tower) {
  for (const std::string& note : tower.network().notes) print_text(STDOUT_FILENO, note + "\n");
  if (options.init_from.empty()) return tower.initialize(model.seed, given_values(tower.network(), dataset));
  LoadedCheckpoint initial =
      initial_state(options, tower, checkpoint_read_limit(max_checkpoint_bytes(tower.network())));
  check_model(initial, model, "--init-from");
  std::vector<std::string> excluded;
  if (!options.init_exclude.empty()) {
    excluded = exclude(options.init_exclude, tower.parameters(), tower.buffers(), model.seed,
                       given_values(tower.network(), dataset), initial.state);
  }
  try {
    tower.initialize_from(initial);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    fail(error.code(), "{} (--init-exclude gives variables their initial values)", error.what());
  }
  print_initialized(initial, excluded, description);
}

std::optional<LoadedCheckpoint> checkpoint_to_resume(const CheckpointOptions& options, std::uint64_t max_bytes) {
  const std::filesystem::path directory = options.train_dir;
  if (options.fresh) return std::nullopt;
  if (options.resume == ResumeMode::never) {
    const std::vector<std::int64_t> steps = list_checkpoints(directory);
    if (steps.empty()) return std::nullopt;
    fail(ExitCode::usage, "--resume never: {} is there already; --fresh would remove it",
         checkpoint_path(directory, steps.front()).string());
  }
  if (options.resume == ResumeMode::best) {
    const std::filesystem::path best = best_checkpoint_path(directory);
    std::error_code absent;
    if (std::filesystem::exists(best, absent)) return LoadedCheckpoint{best, read_checkpoint(best, max_bytes)};
  }
  auto loaded = read_newest_checkpoint(directory, print_warning, max_bytes);
  if (!loaded && options.resume == ResumeMode::require) {
    fail(ExitCode::no_input, "--resume require: no checkpoint in {}", directory.string());
  }
  return loaded;
}

/// Checks that the checkpoint and the run have the same task. Errors: usage (the tasks differ).
void require_same_task(const LoadedCheckpoint& checkpoint, const RunDescription& description) {
  const nlohmann::json before = nlohmann::json::parse(checkpoint.state.options_json, nullptr, false);
  const nlohmann::json now = nlohmann::json::parse(description.json(), nullptr, false);
  if (!before.is_object() || !before.contains("task") || before["task"] == now.value("task", nlohmann::json())) return;
  fail(ExitCode::usage, "{} has the task {}, and this run has {}: choose another --train-dir, or set --fresh",
       checkpoint.path.string(), printable(before["task"].dump()), now.value("task", nlohmann::json()).dump());
}

RunStart load_or_initialize(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                            const RunDescription& description, Tower& tower) {
  const std::uint64_t max_bytes = checkpoint_read_limit(max_checkpoint_bytes(tower.network()));
  const std::optional<LoadedCheckpoint> loaded = checkpoint_to_resume(options, max_bytes);
  if (!loaded) {
    initialize(options, model, dataset, description, tower);
    return {};
  }
  check_model(*loaded, model, "--train-dir");
  require_same_task(*loaded, description);
  tower.restore(*loaded);
  print_resumed(*loaded, options, description);
  return {.position = {.step = loaded->state.global_step,
                       .stream_position = loaded->state.stream_position,
                       .resumed = true},
          .same_evaluation = same_evaluation(loaded->state.options_json, description),
          .pace = logged_pace(options.train_dir, loaded->state.global_step),
          .before = stored_result(loaded->state)};
}

/// Evaluates `condition` on rank 0 and returns the result on all ranks. Collective. Errors: the errors of `condition`.
bool first_rank_finds(const Mpi& mpi, const std::function<bool()>& condition) {
  std::uint8_t found = 0;
  mpi.run_on_all([&] { found = mpi.rank() == 0 && condition() ? 1 : 0; });
  mpi.broadcast(std::as_writable_bytes(std::span(&found, 1)), 0);
  return found != 0;
}

/// On rank 0: returns the score of the evaluation at the checkpoint's step. Returns nullopt if this evaluation is not
/// logged.
std::optional<Score> last_evaluation(const ResumedRun& run) {
  return logged_score(run.options.checkpoint.train_dir, run.start.position.step, run.score.form());
}

/// True if the last evaluation is logged. If the last evaluation is the best evaluation, best.ckpt.h5 must also have
/// been written for this evaluation. Collective.
bool has_last_evaluation(const ResumedRun& run) {
  return first_rank_finds(run.mpi, [&] {
    const std::optional<Score> logged = last_evaluation(run);
    return logged && run.checkpoints.has_kept(*logged, run.tower);
  });
}

/// True if has_last_evaluation is true and the last evaluation reached the target. Collective.
bool has_reached_target(const ResumedRun& run) {
  return first_rank_finds(run.mpi, [&] {
    const std::optional<Score> logged = last_evaluation(run);
    return run.start.same_evaluation && logged && run.score.reaches_target(*logged) &&
           run.checkpoints.has_kept(*logged, run.tower);
  });
}

/// Returns the logged evaluations up to the checkpoint's step, in their order. On ranks other than 0, only the step and
/// Score::value of each evaluation are set. Returns an empty list if the run was evaluated on other records.
/// Collective.
std::vector<StepScore> logged_evaluations(const ResumedRun& run) {
  if (!run.start.same_evaluation) return {};
  std::vector<StepScore> found;
  std::vector<double> sent;  // step and value of each evaluation, as two doubles; a step is below 2^53
  const bool is_first = run.mpi.rank() == 0;
  run.mpi.run_on_all([&] {
    if (!is_first) return;
    found = logged_scores(run.options.checkpoint.train_dir, run.start.position.step, run.score.form());
    for (const auto& [step, score] : found) sent.insert(sent.end(), {static_cast<double>(step), score.value});
  });
  const std::string bytes =
      run.mpi.all_gather({reinterpret_cast<const char*>(sent.data()), sent.size() * sizeof(double)}).front();
  if (is_first) return found;
  sent.resize(bytes.size() / sizeof(double));
  if (!sent.empty()) std::memcpy(sent.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < sent.size(); i += 2) {
    found.push_back({static_cast<std::int64_t>(sent[i]), {.name = {}, .value = sent[i + 1]}});
  }
  return found;
}

}  // namespace

void print_resumed(const LoadedCheckpoint& checkpoint, const CheckpointOptions& options,
                   const RunDescription& description) {
  print_text(STDOUT_FILENO,
             fmt::format("resuming from {} at step {}{}\n", printable(checkpoint.path.string()),
                         checkpoint.state.global_step, options.init_from.empty() ? "" : "; --init-from is not used"));
  for (const std::string& change : description.changes_since(checkpoint.state.options_json)) print_warning(change);
}

RunStart start_or_resume(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                         const RunDescription& description, Tower& tower, const Mpi& mpi) {
  RunStart start;
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) start = load_or_initialize(options, model, dataset, description, tower);
  });
  static_assert(std::is_trivially_copyable_v<RunStart>);
  mpi.broadcast(std::as_writable_bytes(std::span(&start, 1)), 0);
  tower.broadcast_from_first();
  return start;
}

std::optional<EndCause> end_of_resumed(const ResumedRun& run, Patience& patience) {
  const auto end_if = [](bool is_finished, EndCause end) { return is_finished ? std::optional(end) : std::nullopt; };
  const std::int64_t step = run.start.position.step, max_steps = run.options.optimizer.max_steps;
  if (step >= max_steps) {
    const bool ends_with_evaluation = run.has_eval_data && max_steps > 0 && step == max_steps;
    return end_if(!ends_with_evaluation || has_last_evaluation(run), EndCause::steps);
  }
  if (!run.has_eval_data) return std::nullopt;
  if (run.score.has_target() && has_reached_target(run)) return EndCause::target;
  if (run.options.task.patience == 0) return std::nullopt;
  Patience with_this_step = patience;
  for (const StepScore& evaluation : logged_evaluations(run)) {
    if (!evaluates_after(evaluation.step, run.options)) continue;
    with_this_step.add(evaluation);
    if (evaluation.step < step) patience.add(evaluation);  // the run repeats the evaluation of this step
  }
  return end_if(with_this_step.is_over() && has_last_evaluation(run), EndCause::patience);
}

std::string nothing_to_do_line(const TrainOptions& options, std::int64_t step, EndCause end) {
  const std::string why =
      end == EndCause::target
          ? fmt::format("whose evaluation reached --stop-at-accuracy {}", options.task.stop_at_accuracy)
      : end == EndCause::patience ? fmt::format("where --patience {} ended the run", options.task.patience)
      : options.optimizer.time_budget > 0.0
          ? fmt::format("where --time-budget {} or --max-steps ended the run", options.optimizer.time_budget)
      : options.optimizer.epochs > 0.0 ? fmt::format("and --epochs {} has {}", options.optimizer.epochs,
                                                     count_text(options.optimizer.max_steps, "step"))
                                       : fmt::format("and --max-steps is {}", options.optimizer.max_steps);
  return fmt::format("nothing to do: {} holds step {}, {} (--fresh starts over)",
                     printable(options.checkpoint.train_dir), step, why);
}

}  // namespace carillon
