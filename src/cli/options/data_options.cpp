#include "carillon/cli/options/train_options.h"

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"
#include "src/data/records/record_files.h"

namespace carillon {
namespace {

// Limits of options: larger values can only be mistakes.
constexpr std::int64_t max_samples = std::int64_t{1} << 24;
constexpr std::int64_t max_records = (std::int64_t{1} << 32) - 1;
constexpr std::int64_t max_prefetch_bytes = std::int64_t{1} << 44;

constexpr std::array cache_choices{Choice{CacheMode::automatic, "auto"}, Choice{CacheMode::memory, "memory"},
                                   Choice{CacheMode::none, "none"}};
constexpr std::array sharding_choices{Choice{Sharding::record, "record"}, Choice{Sharding::file, "file"}};
constexpr std::array sampling_choices{Choice{Sampling::uniform, "uniform"}, Choice{Sampling::balanced, "balanced"}};

void declare_keys(OptionSet& set, DataOptions& o) {
  set.add("image-key", o.image_key, "record feature that holds the image, if not the program's usual one");
  set.add("label-key", o.label_key, "record feature that holds the label, if not the program's usual one");
}

void declare_missing_shards(OptionSet& set, DataOptions& o) {
  set.add("allow-missing-shards", o.allow_missing_shards, missing_shards_help);
}

void declare_records(OptionSet& set, DataOptions& o) {
  set.begin_group("Data");
  set.add("data", o.files,
          "training records: paths or patterns of TFRecord files; synthetic: noise images, for measurements");
  set.add("eval-data", o.eval_files, "records of the evaluations during training: paths or patterns of TFRecord files");
  set.add("eval-every", o.eval_every, 0, max_option_steps, "steps between evaluations; 0: at the end only");
  declare_keys(set, o);
  declare_missing_shards(set, o);
  set.add("shuffle", o.shuffle, "new random order of the records in each epoch").scope = Scope::result;
  set.add("shuffle-window", o.shuffle_window, 0, max_records,
          "number of records that are shuffled together; each host reads whole windows ahead; 0: all records")
      .scope = Scope::result;
  set.add("sampling", o.sampling, sampling_choices,
          "how training samples are drawn: uniform: each record once per epoch; balanced: each class equally often, so "
          "that records of rare classes repeat")
      .scope = Scope::result;
  set.add("sharding", o.sharding, sharding_choices,
          "how ranks share the records: by record within each step, or by file")
      .scope = Scope::result;
  set.add("stage", o.stage, "directory on a local disk of each host, to which the data files are copied first");
  set.add("cache", o.cache, cache_choices,
          "when records are decoded: at the start, into memory, or ahead of use (none); auto: by size");
  set.add("skip-damaged", o.skip_damaged,
          "replace a damaged training record by the next one, with a warning; otherwise it ends the run")
      .scope = Scope::result;
  set.add("decode-threads", o.decode_threads, 0, max_option_threads,
          "decoding threads per rank; 0: 2 (CPUs) or the rank's share of the cores (GPUs)")
      .scope = Scope::rank;
  set.add("prefetch-bytes", o.prefetch_bytes, 0, max_prefetch_bytes,
          "buffer for decoded images per rank, in bytes; training and evaluations each have one; 0: one batch per "
          "decoding thread plus three")
      .scope = Scope::rank;
}

void declare_batches(OptionSet& set, DataOptions& o) {
  set.begin_group("Training", Scope::result);
  set.add("batch-size", o.batch_size, 1, max_samples, "samples per rank and step");
  set.add("global-batch", o.global_batch, 0, max_samples,
          "samples per step over all ranks, in place of --batch-size; 0: --batch-size per rank");
  set.add("micro-batch", o.micro_batch, 0, max_samples,
          "samples per forward and backward pass (--global-batch), which runs on one thread of a CPU; gives equal bits "
          "at any number of ranks; 0: the rank's whole part");
}

void declare_augmentation(OptionSet& set, DataOptions& o) {
  set.begin_group("Training", Scope::result);
  set.add("rotate", o.rotate, NumberRange::not_negative, "largest random rotation of a training image, in degrees");
  set.add("zoom", o.zoom, NumberRange::below_one,
          "largest random change of scale of a training image: factors from 1 - X to 1 + X, e.g. 0.1");
  set.add("shift", o.shift, NumberRange::unit,
          "largest random shift of a training image, as a fraction of its height and width, e.g. 0.1");
  set.add("mixup", o.mixup, NumberRange::not_negative,
          "parameter of mixup, which blends each image and label with another of its batch: weight from Beta(X, X), "
          "one draw per batch; 0: disabled");
  set.add("cutmix", o.cutmix, NumberRange::not_negative,
          "parameter of cutmix, which puts a box of another image of its batch into each image, and blends the "
          "labels by area: area from Beta(X, X); with --mixup, each of the two applies to half of the batches; 0: "
          "disabled");
}

void check_batches(const OptionSet& set, const DataOptions& o) {
  // --global-batch on the command line overrides --batch-size of a recipe. But --batch-size does not override
  // --global-batch of a recipe. Such a recipe may also set --micro-batch, and its results must not depend on the number
  // of ranks.
  if (o.global_batch > 0 && set.given_with("batch-size", "global-batch")) {
    const bool overrides = set.given_by("batch-size") > set.given_by("global-batch");
    fail(ExitCode::usage, "--batch-size counts the samples of each rank, --global-batch those of all ranks: {}",
         overrides ? "a recipe or the environment gives --global-batch; change it instead, or add --global-batch 0 "
                     "--micro-batch 0"
                   : "give one of them");
  }
  if (o.micro_batch == 0) return;
  if (o.global_batch == 0) fail(ExitCode::usage, "--micro-batch requires --global-batch");
  if (o.global_batch % o.micro_batch != 0) {
    fail(ExitCode::usage, "--global-batch {} is not a multiple of --micro-batch {}", o.global_batch, o.micro_batch);
  }
}

}  // namespace

void declare(OptionSet& set, DataOptions& options) {
  declare_records(set, options);
  declare_batches(set, options);
  declare_augmentation(set, options);
}

void check(const OptionSet& set, const DataOptions& o) {
  if (o.eval_every > 0 && o.eval_files.empty()) fail(ExitCode::usage, "--eval-every requires --eval-data");
  const std::string_view decodes_ahead = o.skip_damaged                 ? "--skip-damaged"
                                         : o.sharding == Sharding::file ? "--sharding file"
                                                                        : "";
  if (!decodes_ahead.empty() && o.cache == CacheMode::memory) {
    fail(ExitCode::usage, "{} requires records that are decoded ahead of use: remove --cache memory", decodes_ahead);
  }
  if (o.sampling == Sampling::balanced && (o.shuffle_window > 0 || o.sharding == Sharding::file)) {
    fail(ExitCode::usage, "--sampling balanced reads records from all files in random order: remove --{}",
         o.shuffle_window > 0 ? "shuffle-window" : "sharding file");
  }
  if (is_synthetic(o.files) && (o.sharding == Sharding::file || !o.stage.empty())) {
    fail(ExitCode::usage, "--{} requires files, and --data synthetic has none",
         o.stage.empty() ? "sharding file" : "stage");
  }
  check_batches(set, o);
}

std::vector<std::string_view> options_without_effect(const DataOptions& o) {
  std::vector<std::string_view> names;
  if (!o.shuffle) names.emplace_back("shuffle-window");
  if (o.global_batch > 0) names.emplace_back("batch-size");
  if (!o.distort) {  // without --distort, these picture options have no effect
    for (const char* const name : {"min-crop-area", "mirror", "flip-vertical", "quarter-turns", "color-jitter",
                                   "rand-augment", "random-erasing"}) {
      names.emplace_back(name);
    }
  }
  return names;
}

void declare_for_evaluation(OptionSet& set, DataOptions& o) {
  set.begin_group("Data");
  set.add("data", o.files, "records to evaluate on: paths or patterns of TFRecord files");
  declare_keys(set, o);
  declare_missing_shards(set, o);
  set.add("batch-size", o.batch_size, 1, max_samples, "samples per forward pass");
  set.add("cache", o.cache, cache_choices,
          "when records are decoded: at the start, into memory, or as they are read (none); auto: by size");
  set.add("decode-threads", o.decode_threads, 1, max_option_threads, "decoding threads per rank").scope = Scope::rank;
}

}  // namespace carillon
