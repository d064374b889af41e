// Options of the course of a run: devices, checkpoints, time limit, logs and faults.
#include <cstdlib>

#include "carillon/cli/options/train_options.h"
#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"

namespace carillon {

// Devices.

namespace {

constexpr std::array convolution_choices{Choice{ConvolutionMethod::automatic, "auto"},
                                         Choice{ConvolutionMethod::direct, "direct"},
                                         Choice{ConvolutionMethod::winograd, "winograd"}};
constexpr std::int64_t max_ranks = 4096;
constexpr std::array wire_choices{Choice{Wire::fp32, "fp32"}, Choice{Wire::bf16, "bf16"}};

}  // namespace

void declare(OptionSet& set, DeviceOptions& o) {
  declare_for_evaluation(set, o);
  set.add(
         "ranks", o.ranks, 0, max_ranks,
         "number of ranks on this machine, which the program starts under mpirun; 1: without mpirun; 0: the ranks that "
         "mpirun or srun started")
      .scope = Scope::rank;
  set.add("comm", o.comm, communicator_choices, "library that averages the gradients (GPUs); auto: nccl if possible");
  set.add("cuda-graph", o.cuda_graph,
          "replay each step, and each batch of an evaluation, as one captured CUDA graph (GPUs)");
  set.add(
      "bucket-kib", o.bucket_kib, 0, std::int64_t{1} << 30,
      "KiB of gradients per all-reduce (GPUs, several hosts); 0: 8192 on GPUs (25600 if on several hosts), else 4096");
  set.add("log-device-placement", o.log_device_placement, "list every op with its device and memory");
  set.add("wire", o.wire, wire_choices, "number format of gradients sent between hosts (CPUs); bf16 halves the traffic")
      .scope = Scope::result;
  set.add("preflight", o.preflight,
          "check ranks, hosts, GPUs, train directory and all-reduce, print what was found, and exit")
      .scope = Scope::rank;
  set.add("share-gpus", o.share_gpus, "accept several ranks per GPU (--preflight)").scope = Scope::rank;
}

void check(const DeviceOptions& o) {
  if (o.share_gpus && !o.preflight) fail(ExitCode::usage, "--share-gpus requires --preflight");
}

void declare_for_evaluation(OptionSet& set, DeviceOptions& o) {
  set.begin_group("Devices");
  set.add("device", o.device, device_choices, "device of each rank");
  set.add("precision", o.precision, precision_choices,
          "number format of convolutions, matrix products and activations; variables stay float32. tf32: GPUs only. "
          "auto: tf32 on GPUs; on CPUs bf16 with AMX, or with AVX512-BF16 if the network gains from it; else fp32")
      .scope = Scope::result;
  // The description of a run also stores the resolved values of these two options, because they influence the result.
  set.add("convolution", o.cpu.convolution, convolution_choices,
          "convolution algorithm (CPUs); auto: winograd where it is faster");
  set.add("isa", o.cpu.isa, isa_choices,
          "highest instruction set for convolutions and matrix products (CPUs); auto: the processor's");
  set.add("threads", o.threads, 0, max_option_threads, "CPU threads per rank; 0: the rank's share of the cores").scope =
      Scope::rank;
}

// Start, stop and checkpoints.

namespace {

// Larger values can only be mistakes.
constexpr std::int64_t max_seconds = std::int64_t{1} << 32;  // far below 2^63 nanoseconds
constexpr std::int64_t max_count = 1'000'000;

constexpr std::array resume_choices{Choice{ResumeMode::automatic, "auto"}, Choice{ResumeMode::never, "never"},
                                    Choice{ResumeMode::require, "require"}, Choice{ResumeMode::best, "best"}};

void declare_start_and_stop(OptionSet& set, CheckpointOptions& o) {
  set.begin_group("Training");
  set.add("train-dir", o.train_dir, "directory for checkpoints and logs");
  set.add("init-from", o.init_from,
          "initial variables: a checkpoint, a train directory, or a file of PyTorch's weights, NAME.safetensors");
  set.add(
      "fit-head", o.fit_head,
      "before the first step, fit the last layer to the outputs of the other layers for the training records; for a "
      "classification from trained weights");
  set.add("init-exclude", o.init_exclude,
          "patterns of variables that are not read from --init-from, e.g. 'logits/*' for other classes");
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
          "there is none; best: continue from best.ckpt.h5 if there is one, and before the first step remove the later "
          "checkpoints");
  set.add("fresh", o.fresh, "before the first step, remove the earlier checkpoints and logs of the train directory");
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
  if (o.fresh && o.resume == ResumeMode::best) {
    fail(ExitCode::usage, "--fresh removes the checkpoint that --resume best needs: give one of them");
  }
  if (requires_checkpoint && !o.init_from.empty()) {
    fail(ExitCode::usage, "--init-from is never used with --resume require: give one of them");
  }
  if (!o.init_exclude.empty() && o.init_from.empty()) fail(ExitCode::usage, "--init-exclude requires --init-from");
  if (o.train_dir.empty()) fail(ExitCode::usage, "--train-dir is empty: name a directory");
  static_cast<void>(stop_time(o));  // throws on a bad --time-limit
}

namespace {

using std::chrono::seconds;

/// Parses a number of seconds. Returns nullopt if the text is not a whole number from 1 to 2^32.
std::optional<seconds> seconds_in(const std::string& text) {
  try {
    return seconds(parse_integer(text, 1, max_seconds));
  } catch (const ValueExpected&) {
    return std::nullopt;
  }
}

std::chrono::steady_clock::duration until_job_ends() {
  const char* const text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) fail(ExitCode::usage, "--time-limit slurm requires a Slurm job: SLURM_JOB_END_TIME is not set");
  const std::optional<seconds> end = seconds_in(text);
  if (!end)
    fail(ExitCode::usage, "--time-limit slurm: SLURM_JOB_END_TIME is '{}', not a number of seconds since 1970", text);
  return *end - std::chrono::system_clock::now().time_since_epoch();
}

}  // namespace

std::optional<std::chrono::steady_clock::time_point> stop_time(const CheckpointOptions& options) {
  if (options.time_limit.empty()) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  const seconds margin(options.time_margin);
  if (options.time_limit == "slurm") return now + until_job_ends() - margin;
  const std::optional<seconds> limit = seconds_in(options.time_limit);
  if (!limit)
    fail(ExitCode::usage, "--time-limit: '{}' is not a whole number of seconds above 0, and not slurm",
         options.time_limit);
  if (*limit <= margin) {
    fail(ExitCode::usage, "--time-limit {} must exceed --time-margin {} (both in seconds)", options.time_limit,
         options.time_margin);
  }
  return now + *limit - margin;
}

void declare(OptionSet& set, LoggingOptions& o) {
  set.begin_group("Logs");
  set.add("log-every", o.log_every, 0, max_option_steps,
          "steps between lines on the console and in metrics.jsonl; 0: none");
  set.add("summary-every", o.summary_every, 0, max_option_steps,
          "steps between TensorBoard summaries; the last step also has one; 0: none, but image_train logs the loss "
          "with each console line. Default on GPUs: at least 100");
}

namespace {

constexpr std::array on_nan_choices{Choice{OnNan::stop, "stop"}, Choice{OnNan::report, "report"}};

}  // namespace

void declare(OptionSet& set, FaultOptions& o) {
  set.begin_group("Faults");
  set.add("on-nan", o.on_nan, on_nan_choices,
          "reaction to a non-finite loss: stop the run, or first report the op and the records that caused it; with "
          "report, GPUs wait after each step, which is slower");
  set.add("check-replicas", o.check_replicas, 0, max_option_steps,
          "steps between comparisons of the ranks' variables, which also precede each checkpoint; GPUs copy the "
          "variables to the host; 0: disabled");
  set.add(
      "audit", o.audit, 0, max_option_steps,
      "steps between audits; an audit computes each rank's gradients a second time, on another rank if possible, and "
      "compares checksums (CPUs); 0: disabled");
  declare_for_evaluation(set, o);
}

void declare_for_evaluation(OptionSet& set, FaultOptions& o) {
  set.begin_group("Faults");
  set.add("stall-timeout", o.stall_timeout, NumberRange::not_negative,
          "seconds without progress of a rank after which the run ends; 0: unlimited");
}

}  // namespace carillon
