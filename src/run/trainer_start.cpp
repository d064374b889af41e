// How a run begins: data, train directory, start or resume, logs, and what it says of itself.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "carillon/app/app.h"
#include "carillon/core/error.h"
#include "carillon/run/trainer.h"
#include "src/run/train_directory.h"

namespace carillon {
namespace {

void warn(const std::string& line) { print_text(STDERR_FILENO, fmt::format("warning: {}\n", line)); }

}  // namespace

void Trainer::open_data() {
  const CacheMode cache = cache_mode(options_.cache);
  const RecordSchema schema = schema_for(model_, options_.image_key, options_.label_key);
  mpi_.run_on_all([&] {
    if (options_.max_steps > 0) dataset_ = Dataset::open(options_.data, schema, cache, mpi_.local_size());
    if (!options_.eval_data.empty()) {
      eval_dataset_ = Dataset::open(options_.eval_data, schema, cache, mpi_.local_size());
    }
  });
  if (dataset_) {
    option_values_["training records"] = dataset_->size();
    option_values_["training record checksum"] = dataset_->fingerprint();
  }
  if (eval_dataset_) option_values_["evaluation record checksum"] = eval_dataset_->fingerprint();
  agree(mpi_, option_values_);
}

void Trainer::open_train_dir() {
  mpi_.run_on_all([&] {
    if (!is_first()) return;
    lock_.emplace(options_.train_dir);
    remove_stale_temporaries(options_.train_dir);
    writer_.emplace(options_.train_dir, static_cast<int>(options_.keep_checkpoints));
  });
}

std::optional<LoadedCheckpoint> Trainer::checkpoint_to_resume() {
  const std::filesystem::path directory = options_.train_dir;
  if (options_.fresh) return std::nullopt;
  if (options_.resume == "never") {
    const std::vector<std::int64_t> steps = list_checkpoints(directory);
    if (steps.empty()) return std::nullopt;
    fail(ExitCode::usage, "--resume never: {} is there already; --fresh would remove it",
         checkpoint_path(directory, steps.front()).string());
  }
  auto loaded = read_newest_checkpoint(directory, warn);
  if (!loaded && options_.resume == "require") {
    fail(ExitCode::no_input, "--resume require: no checkpoint in {}", directory.string());
  }
  return loaded;
}

void Trainer::refuse_other_model(const LoadedCheckpoint& loaded) const {
  if (loaded.state.model == options_.model) return;
  fail(ExitCode::data, "{} is of model '{}', this run trains '{}'", loaded.path.string(), loaded.state.model,
       options_.model);
}

Trainer::Position Trainer::start_or_resume() {
  Position position;
  mpi_.run_on_all([&] {
    if (!is_first()) return;
    if (const std::optional<LoadedCheckpoint> loaded = checkpoint_to_resume()) {
      refuse_other_model(*loaded);
      tower_->load(*loaded, false);
      position = {loaded->state.global_step, loaded->state.stream_position, true};
      note_resume(*loaded);
    } else if (!options_.init_from.empty()) {
      const LoadedCheckpoint initial{options_.init_from, read_checkpoint(options_.init_from)};
      refuse_other_model(initial);
      tower_->load(initial, true);
    } else {
      tower_->initialize(options_.seed);
    }
  });
  mpi_.broadcast(std::as_writable_bytes(std::span(&position, 1)), 0);
  tower_->broadcast_from_first();
  return position;
}

void Trainer::note_resume(const LoadedCheckpoint& loaded) {
  print_text(STDOUT_FILENO,
             fmt::format("resuming from {} at step {}{}\n", loaded.path.string(), loaded.state.global_step,
                         options_.init_from.empty() ? "" : "; --init-from is not used"));
  for (const std::string& difference : differences_that_matter(loaded.state, option_values_)) warn(difference);
}

void Trainer::say_nothing_to_do(const Position& position) const {
  if (!is_first()) return;
  print_text(STDOUT_FILENO,
             fmt::format("nothing to do: {} holds step {}, and --max-steps is {} (--fresh starts over)\n",
                         options_.train_dir, position.step, options_.max_steps));
}

void Trainer::open_logs(const Position& position) {
  mpi_.run_on_all([&] {
    if (!is_first()) return;
    if (options_.fresh) remove_run_files(options_.train_dir);
    log_.emplace(options_.train_dir, model_.summary_style, position.step,
                 std::max(options_.max_steps, position.step + 1));
  });
}

void Trainer::announce() {
  if (!is_first()) return;
  if (options_.log_device_placement) log_placement();
  std::int64_t parameters = 0;
  for (const ParameterSpec& spec : tower_->graph().parameters()) parameters += spec.shape.element_count();
  std::string line = fmt::format("{}: {} parameters; {} tower{} on {}, {} thread{} each, communicator {}", model_.name,
                                 parameters, mpi_.size(), mpi_.size() == 1 ? "" : "s", device_.name(),
                                 cpu_.thread_count, cpu_.thread_count == 1 ? "" : "s", communicator_.name());
  if (dataset_) {
    line += fmt::format("; {} records {}, global batch {}", dataset_->size(),
                        dataset_->in_memory() ? "in memory" : "read ahead", global_batch());
  }
  log_->console().print(line);
  log_->graph(tower_->graph(), device_.name());
}

void Trainer::log_placement() {
  for (const Graph::Node& node : tower_->graph().nodes()) {
    log_->console().print(fmt::format("{}: ({}): /job:worker/replica:0/task:0/device:{}", node.name,
                                      node.definition->type(), device_.name()));
  }
  log_->console().print(fmt::format("activations and their gradients: {} bytes", tower_->activation_bytes()));
}

}  // namespace carillon
