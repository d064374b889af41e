#include "carillon/app/options.h"

#include "carillon/core/error.h"

namespace carillon {

using Interval = OptionSet::Interval;

namespace {

// Bounds beyond which an option can only be a mistake.
constexpr std::int64_t most_steps = std::int64_t{1} << 53;
constexpr std::int64_t most_samples = std::int64_t{1} << 24;
constexpr std::int64_t most_threads = 4096;

void declare_record_keys(OptionSet& set, std::string& image_key, std::string& label_key) {
  set.add("image-key", image_key, "feature that holds a record's image, if not the usual one");
  set.add("label-key", label_key, "feature that holds its label, if not the usual one");
}

void declare_device(OptionSet& set, std::string& device, std::string& precision) {
  set.add("device", device, {"auto", "cpu", "cuda"}, "what each tower computes on");
  set.add("precision", precision, {"fp32", "tf32", "bf16"}, "of a GPU's products; variables are float32 in all");
}

}  // namespace

void declare(OptionSet& set, TrainOptions& o) {
  set.add("data", o.data, "training records: paths or patterns of TFRecord files");
  set.add("eval-data", o.eval_data, "records to evaluate on while training");
  set.add("eval-every", o.eval_every, 0, most_steps, "steps between evaluations; 0: only at the end");
  declare_record_keys(set, o.image_key, o.label_key);
  set.add("train-dir", o.train_dir, "where checkpoints and logs go");
  set.add("max-steps", o.max_steps, 0, most_steps, "global step to stop at; 0 writes the initial checkpoint");
  set.add("batch-size", o.batch_size, 1, most_samples, "samples per tower and step");
  set.add("learning-rate", o.learning_rate, Interval::positive, "initial learning rate");
  set.add("learning-rate-decay", o.learning_rate_decay, Interval::positive, "factor applied every decay-steps");
  set.add("decay-steps", o.decay_steps, 0, most_steps,
          "steps per decay; 0: by the reference's rule, from the batch size");
  set.add("regularization", o.regularization, Interval::not_negative, "L2 factor of the weight matrices");
  set.add("moving-average-decay", o.moving_average_decay, Interval::unit, "decay of the variables' moving averages");
  set.add("seed", o.seed, "of initial variables and sample order");
  set.add("shuffle", o.shuffle, "visit the records in a new random order each epoch");
  set.add("cache", o.cache, {"auto", "memory", "none"}, "decode all records at start into memory, or ahead of use");
  declare_device(set, o.device, o.precision);
  set.add("comm", o.comm, {"auto", "nccl", "mpi"}, "what averages the gradients of GPUs");
  set.add("cuda-graph", o.cuda_graph, "replay the step on a GPU as one captured graph");
  set.add("threads", o.threads, 0, most_threads, "CPU threads per rank; 0: this rank's share of the cores");
  set.add("bucket-kib", o.bucket_kib, 1, std::int64_t{1} << 30, "KiB of gradients that are averaged at a time");
  set.add("log-every", o.log_every, 0, most_steps, "steps between lines on the console and in metrics.jsonl; 0: none");
  set.add("summary-every", o.summary_every, 0, most_steps, "steps between TensorBoard summaries; 0: none");
  set.add("checkpoint-every", o.checkpoint_every, 0, most_steps, "steps between checkpoints; 0: only at the end");
  set.add("keep-checkpoints", o.keep_checkpoints, 0, 1000000, "newest checkpoints to keep; 0: all");
  set.add("resume", o.resume, {"auto", "never", "require"}, "go on from the train directory's newest checkpoint");
  set.add("fresh", o.fresh, "remove the train directory's checkpoints and logs first");
  set.add("init-from", o.init_from, "checkpoint to take the initial variables from");
  set.add("log-device-placement", o.log_device_placement, "list every op with its device and memory");
}

void check_combinations(const TrainOptions& o) {
  if (o.fresh && o.resume == "require") fail(ExitCode::usage, "--fresh removes what --resume require asks for");
  if (o.eval_every > 0 && o.eval_data.empty()) fail(ExitCode::usage, "--eval-every needs --eval-data");
  if (o.resume == "require" && !o.init_from.empty()) {
    fail(ExitCode::usage, "--resume require never uses the variables of --init-from");
  }
  if (o.train_dir.empty()) fail(ExitCode::usage, "--train-dir is empty");
}

ModelSettings TrainOptions::model_settings() const {
  return {.pixel_scale = static_cast<float>(pixel_scale),
          .regularization = static_cast<float>(regularization),
          .distort = distort,
          .seed = seed};
}

ExponentialDecay TrainOptions::schedule() const {
  return {.initial = learning_rate,
          .factor = learning_rate_decay,
          .decay_steps = static_cast<double>(decay_steps),
          .staircase = staircase};
}

void declare(OptionSet& set, EvalOptions& o) {
  set.add("data", o.data, "records to evaluate on: paths or patterns of TFRecord files");
  declare_record_keys(set, o.image_key, o.label_key);
  set.add("checkpoint", o.checkpoint, "a checkpoint, or a train directory: its newest good one");
  set.add("raw-weights", o.raw_weights, "use the variables, not their moving averages");
  set.add("batch-size", o.batch_size, 1, most_samples, "samples at a time");
  set.add("cache", o.cache, {"auto", "memory", "none"}, "decode all records at start into memory, or as they are read");
  declare_device(set, o.device, o.precision);
  set.add("threads", o.threads, 0, most_threads, "CPU threads per rank; 0: this rank's share of the cores");
}

std::unique_ptr<RecordDecoder> decoder_for(const Model& model, const std::string& image_key,
                                           const std::string& label_key) {
  RecordSchema schema = model.schema;
  if (!image_key.empty()) schema.keys.image = image_key;
  if (!label_key.empty()) schema.keys.label = label_key;
  return model.make_decoder(std::move(schema));
}

CacheMode cache_mode(const std::string& text) {
  if (text == "memory") return CacheMode::memory;
  return text == "none" ? CacheMode::none : CacheMode::automatic;
}

Arithmetic arithmetic(const std::string& text) {
  if (text == "tf32") return Arithmetic::tf32;
  return text == "bf16" ? Arithmetic::bf16 : Arithmetic::fp32;
}

}  // namespace carillon
