#include "src/app/options.h"

#include "carillon/core/error.h"
#include "src/app/optimizer_options.h"
#include "src/app/option_values.h"
#include "src/train/control/time_limit.h"
#include "src/train/input/open_records.h"

namespace carillon {

using Interval = OptionSet::Interval;

namespace {

// Bounds beyond which an option can only be a mistake.
constexpr std::int64_t max_steps = max_option_steps;
constexpr std::int64_t max_samples = std::int64_t{1} << 24;
constexpr std::int64_t max_records = (std::int64_t{1} << 32) - 1;
constexpr std::int64_t max_threads = 4096;
constexpr std::int64_t max_prefetch_bytes = std::int64_t{1} << 44;
constexpr std::int64_t max_seconds = std::int64_t{1} << 32;  // far from where nanoseconds end

void declare_record_keys(OptionSet& set, std::string& image_key, std::string& label_key) {
  set.add("image-key", image_key, "feature that holds a record's image, if not the usual one");
  set.add("label-key", label_key, "feature that holds its label, if not the usual one");
}

void declare_device(OptionSet& set, DeviceChoice& device, Arithmetic& precision, CpuSettings& cpu) {
  set.add("device", device, device_choices, "what each tower computes on");
  set.add("precision", precision, precision_choices, "of a GPU's products; variables are float32 in all",
          Scope::result);
  // What these two come to decides the result, and stands beside them in a run's description.
  set.add("convolution", cpu.convolution, convolution_choices,
          "of a CPU: by Winograd's method where that is faster, or as said");
  set.add("isa", cpu.isa, isa_choices,
          "highest instruction set of a CPU's convolutions and products; auto: what it has");
}

void declare_stall_timeout(OptionSet& set, double& seconds) {
  set.add("stall-timeout", seconds, Interval::not_negative,
          "seconds that a rank may stand still before the run is ended; 0: for ever");
}

void declare_threads(OptionSet& set, std::int64_t& threads) {
  set.add("threads", threads, 0, max_threads, "CPU threads per rank; 0: this rank's share of the cores", Scope::rank);
}

void check_batches(const OptionSet& set, const TrainOptions& o) {
  // A command's --global-batch counts before a recipe's --batch-size.
  const OptionSet::GivenBy batch_size = set.given_by("batch-size");
  if (o.global_batch > 0 && batch_size != OptionSet::GivenBy::nobody && batch_size >= set.given_by("global-batch")) {
    fail(ExitCode::usage, "--batch-size says the samples of a tower, --global-batch those of all: give one of them");
  }
  if (o.micro_batch == 0) return;
  if (o.wire != Wire::fp32) {
    fail(ExitCode::usage,
         "--wire bf16: sums that are rounded on their way have no bits of any number of ranks, which "
         "--micro-batch is for");
  }
  if (o.sync_batch_norm) {
    fail(ExitCode::usage, "--sync-batch-norm: with --micro-batch batch norms take a micro-batch for their batch");
  }
  if (o.global_batch == 0) fail(ExitCode::usage, "--micro-batch needs --global-batch");
  if (o.global_batch % o.micro_batch != 0) {
    fail(ExitCode::usage, "--global-batch {} is no multiple of --micro-batch {}", o.global_batch, o.micro_batch);
  }
}

}  // namespace

void declare(OptionSet& set, TrainOptions& o) {
  set.begin_group("Data");
  set.add("data", o.data, "training records: paths or patterns of TFRecord files; synthetic: noise, to measure with");
  set.add("eval-data", o.eval_data, "records to evaluate on while training");
  set.add("eval-every", o.eval_every, 0, max_steps, "steps between evaluations; 0: only at the end");
  set.add("stop-at-precision", o.stop_at_accuracy, Interval::unit,
          "end the run, as at max-steps, when an evaluation reaches so much, as 0.94; 0: none");
  set.add_alias("stop-at-accuracy", "stop-at-precision");
  declare_record_keys(set, o.image_key, o.label_key);
  set.add("shuffle", o.shuffle, "visit the records in a new random order each epoch", Scope::result);
  set.add(
      "shuffle-window", o.shuffle_window, 0, max_records,
      "shuffle so many records at a time, and read them ahead in long runs, each host all unless it has files of its "
      "own; 0: all",
      Scope::result);
  set.add("sharding", o.sharding, sharding_choices,
          "share out each step's records over the ranks, or let each rank draw from files of its own", Scope::result);
  set.add("stage", o.stage, "directory of each host's own disk to which the data files are copied first");
  set.add("cache", o.cache, cache_choices, "decode all records at start into memory, or ahead of use");
  set.add("skip-damaged", o.skip_damaged,
          "name a damaged training record and take the next in its place; else it ends the run", Scope::result);
  set.add("decode-threads", o.decode_threads, 0, max_threads,
          "threads per rank that decode ahead; 0: 2, or a GPU's share of the cores", Scope::rank);
  set.add("prefetch-bytes", o.prefetch_bytes, 0, max_prefetch_bytes,
          "bytes of images per rank that are decoded ahead, in training and in evaluations each; 0: a batch for each "
          "decoding thread, and three",
          Scope::rank);
  set.begin_group("Training");
  set.add("train-dir", o.train_dir, "where checkpoints and logs go");
  set.add("max-steps", o.max_steps, 0, max_steps, "global step to stop at; 0 writes the initial checkpoint");
  set.add("batch-size", o.batch_size, 1, max_samples, "samples per tower and step", Scope::result);
  set.add("global-batch", o.global_batch, 0, max_samples,
          "samples per step over all towers, in place of batch-size; 0: as that says", Scope::result);
  set.add("micro-batch", o.micro_batch, 0, max_samples,
          "with global-batch, on CPUs: samples that go through the network by themselves, on one thread; equal bits at "
          "any number of ranks; 0: each rank takes its part whole",
          Scope::result);
  set.add("sync-batch-norm", o.sync_batch_norm, "batch norms take the batches of all ranks for one, on CPUs",
          Scope::result);
  set.add("label-smoothing", o.label_smoothing, Interval::unit,
          "part of each label that is shared out over all classes", Scope::result);
  set.add("rotate", o.rotate, Interval::not_negative, "turn each training image by up to so many degrees, at random",
          Scope::result);
  set.add("zoom", o.zoom, Interval::below_one,
          "enlarge each training image at random by a factor from 1 - X to 1 + X, as 0.1", Scope::result);
  set.add("shift", o.shift, Interval::unit,
          "move each training image at random by up to so large a part of its height and width, as 0.1", Scope::result);
  set.add("mixup", o.mixup, Interval::not_negative,
          "mix each image and label with another's of its batch, in parts from Beta(X, X), one draw a batch; 0: none",
          Scope::result);
  set.add("cutmix", o.cutmix, Interval::not_negative,
          "put a box of another image of its batch into each, and so for labels, its area from Beta(X, X); with mixup, "
          "half of the batches each; 0: none",
          Scope::result);
  set.add("seed", o.seed, "of initial variables and sample order", Scope::result);
  set.add("init-from", o.init_from, "checkpoint, or train directory, to take the initial variables from");
  set.add("init-exclude", o.init_exclude,
          "with init-from: patterns of variables that begin anew, as 'logits/*' for other classes");
  set.add("freeze", o.freeze, "patterns of variables that are never trained, as 'stem/*'", Scope::result);
  set.add("time-limit", o.time_limit,
          "save and end with 75 before so many seconds, or, if slurm, before the job's end");
  set.add("time-margin", o.time_margin, 0, max_seconds,
          "seconds before it: what a step, an evaluation and a checkpoint may take");
  declare_optimizer(set, o);
  declare_lookahead(set, o);
  declare_schedule(set, o);
  set.begin_group("Devices");
  declare_device(set, o.device, o.precision, o.cpu);
  declare_threads(set, o.threads);
  set.add("comm", o.comm, communicator_choices, "what averages the gradients of GPUs");
  set.add("cuda-graph", o.cuda_graph, "replay the step on a GPU as one captured graph");
  set.add("bucket-kib", o.bucket_kib, 0, std::int64_t{1} << 30,
          "KiB of gradients a bucket, on GPUs or several hosts; 0: 1024 on GPUs, else 4096");
  set.add("log-device-placement", o.log_device_placement, "list every op with its device and memory");
  set.add("wire", o.wire, wire_choices,
          "of gradients between hosts of CPUs: as they are, or rounded to bfloat16, which takes half the bytes",
          Scope::result);
  set.add("preflight", o.preflight,
          "look at ranks, hosts, GPUs, the train directory and averaging, print what is there, and end", Scope::rank);
  set.add("share-gpus", o.share_gpus, "several ranks on a GPU are meant, and no fault to preflight", Scope::rank);
  set.begin_group("Logs");
  set.add("log-every", o.log_every, 0, max_steps, "steps between lines on the console and in metrics.jsonl; 0: none");
  set.add(
      "summary-every", o.summary_every, 0, max_steps,
      "steps between TensorBoard summaries, the last step's besides; on GPUs 100 at least where not given; 0: none");
  set.begin_group("Checkpoints");
  set.add("resume", o.resume, resume_choices, "go on from the train directory's newest checkpoint");
  set.add("fresh", o.fresh, "remove the train directory's checkpoints and logs first");
  set.add("checkpoint-every", o.checkpoint_every, 0, max_steps, "steps between checkpoints; 0: only at the end");
  set.add("checkpoint-every-seconds", o.checkpoint_every_seconds, 0, max_seconds,
          "a checkpoint also when the last is so old; 0: by steps only");
  set.add("keep-checkpoints", o.keep_checkpoints, 0, 1000000, "newest checkpoints to keep; 0: all");
  set.add("keep-every", o.keep_every, 0, max_steps,
          "keep checkpoints of the steps that this divides, besides the newest; 0: none");
  set.add("keep-best", o.keep_best, "with --eval-data: keep the best evaluation's state as best.ckpt.h5");
  set.add("checkpoint-failures", o.checkpoint_failures, 0, 1000000,
          "failed checkpoints in a row that are tried again; 0: a first failure ends the run");
  set.begin_group("Faults");
  set.add(
      "on-nan", o.on_nan, on_nan_choices,
      "at a loss that is not finite: stop, or report from which op and records it is, too; a GPU then waits for each "
      "step, which is slower");
  set.add("check-replicas", o.check_replicas, 0, max_steps,
          "steps between comparisons of the ranks' variables, also made before each checkpoint; GPUs copy them to the "
          "host; 0: none");
  declare_stall_timeout(set, o.stall_timeout);
}

void check_combinations(const OptionSet& set, const TrainOptions& o) {
  const bool requires_checkpoint = o.resume == ResumeMode::require;
  if (o.fresh && requires_checkpoint) fail(ExitCode::usage, "--fresh removes what --resume require asks for");
  if (o.eval_every > 0 && o.eval_data.empty()) fail(ExitCode::usage, "--eval-every needs --eval-data");
  if (o.stop_at_accuracy > 0.0 && o.eval_data.empty()) {
    fail(ExitCode::usage, "--stop-at-precision needs --eval-data");
  }
  if (requires_checkpoint && !o.init_from.empty()) {
    fail(ExitCode::usage, "--resume require never uses the variables of --init-from");
  }
  if (o.skip_damaged && o.cache == CacheMode::memory) {
    fail(ExitCode::usage, "--skip-damaged is of records that are decoded ahead of use, not of --cache memory");
  }
  if (o.sharding == Sharding::file && o.cache == CacheMode::memory) {
    fail(ExitCode::usage, "--sharding file is of records that are decoded ahead of use, not of --cache memory");
  }
  if (is_synthetic(o.data) && (o.sharding == Sharding::file || !o.stage.empty())) {
    fail(ExitCode::usage, "--{}: --data synthetic has no files", o.stage.empty() ? "sharding file" : "stage");
  }
  if (!o.init_exclude.empty() && o.init_from.empty()) fail(ExitCode::usage, "--init-exclude needs --init-from");
  check_batches(set, o);
  check_optimizer(set, o);
  stop_time(o);  // says what is wrong with it
  if (o.share_gpus && !o.preflight) {
    fail(ExitCode::usage, "--share-gpus is of --preflight; trainings say that ranks share a GPU, and go on");
  }
  if (o.train_dir.empty()) fail(ExitCode::usage, "--train-dir is empty");
}

void declare(OptionSet& set, EvalOptions& o) {
  set.begin_group("Data");
  set.add("data", o.data, "records to evaluate on: paths or patterns of TFRecord files");
  declare_record_keys(set, o.records.image_key, o.records.target_key);
  set.add("checkpoint", o.checkpoint, "a checkpoint, or a train directory: its newest good one");
  set.add("raw-weights", o.raw_weights, "use the variables, not their moving averages");
  set.add("report", o.report,
          "file for precision and recall of each class and the confusion matrix: NAME.json or NAME.csv");
  set.add("batch-size", o.batch_size, 1, max_samples, "samples at a time");
  set.add("cache", o.records.cache, cache_choices, "decode all records at start into memory, or as they are read");
  set.add("decode-threads", o.decode_threads, 1, max_threads, "threads per rank that decode ahead", Scope::rank);
  set.begin_group("Devices");
  declare_device(set, o.device, o.precision, o.cpu);
  declare_threads(set, o.threads);
  set.begin_group("Faults");
  declare_stall_timeout(set, o.stall_timeout);
}

}  // namespace carillon
