#include "carillon/options/checkpoint_options.h"

#include "carillon/core/error.h"
#include "src/options/option_groups.h"
#include "src/options/option_values.h"
#include "src/options/time_limit.h"

namespace carillon {
namespace {

// Larger values can only be mistakes.
constexpr std::int64_t max_seconds = std::int64_t{1} << 32;  // far below 2^63 nanoseconds
constexpr std::int64_t max_count = 1'000'000;

constexpr std::array resume_choices{Choice{ResumeMode::automatic, "auto"}, Choice{ResumeMode::never, "never"},
                                    Choice{ResumeMode::require, "require"}};

void declare_start_and_stop(OptionSet& set, CheckpointOptions& o) {
  set.begin_group("Training");
  set.add("train-dir", o.train_dir, "directory for checkpoints and logs");
  set.add("init-from", o.init_from,
          "initial variables: a checkpoint, a train directory, or a file of PyTorch's weights, NAME.safetensors");
  set.add("init-exclude", o.init_exclude,
          "patterns of variables that are not taken from --init-from, e.g. 'logits/*' for other classes");
  set.add("time-limit", o.time_limit,
          "seconds that the run may take, or slurm: until the job's end; the run then saves and exits with 75");
  set.add("time-margin", o.time_margin, 0, max_seconds,
          "seconds before --time-limit at which the run saves and exits; must cover a step, an evaluation and a "
          "checkpoint");
}

}  // namespace

void declare(OptionSet& set, CheckpointOptions& o) {
  declare_start_and_stop(set, o);
  set.begin_group("Checkpoints");
  set.add("resume", o.resume, resume_choices,
          "continue from the train directory's newest checkpoint; never: refuse if there is one; require: refuse if "
          "there is none");
  set.add("fresh", o.fresh, "remove the train directory's checkpoints and logs first");
  set.add("checkpoint-every", o.checkpoint_every, 0, max_option_steps,
          "steps between checkpoints, in addition to --checkpoint-every-seconds; 0: disabled");
  set.add("checkpoint-every-seconds", o.checkpoint_every_seconds, 0, max_seconds,
          "seconds after a checkpoint at which the next one is due; 0: by steps only");
  set.add("keep-checkpoints", o.keep_checkpoints, 0, max_count, "newest checkpoints to keep; 0: all");
  set.add("keep-every", o.keep_every, 0, max_option_steps,
          "steps between checkpoints to keep in addition to the newest; 0: none");
  set.add("keep-best", o.keep_best, "keep the state of the best evaluation as best.ckpt.h5 (--eval-data)");
  set.add("checkpoint-failures", o.checkpoint_failures, 0, max_count,
          "consecutive failed checkpoints that the run survives; 0: the first failure ends it");
}

void check(const CheckpointOptions& o) {
  const bool requires_checkpoint = o.resume == ResumeMode::require;
  if (o.fresh && requires_checkpoint) {
    fail(ExitCode::usage, "--fresh removes the checkpoint that --resume require needs: give one of them");
  }
  if (requires_checkpoint && !o.init_from.empty()) {
    fail(ExitCode::usage, "--init-from is never used with --resume require: give one of them");
  }
  if (!o.init_exclude.empty() && o.init_from.empty()) fail(ExitCode::usage, "--init-exclude requires --init-from");
  if (o.train_dir.empty()) fail(ExitCode::usage, "--train-dir is empty: name a directory");
  static_cast<void>(stop_time(o));  // throws on a bad --time-limit
}

}  // namespace carillon
