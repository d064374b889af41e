// DataOptions: which records a training or an evaluation reads, in which order and batches, and how it augments images.
//
// "Not an option" marks a member without a command-line option; the program sets it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/data/dataset.h"
#include "carillon/data/record_form.h"
#include "carillon/models/network.h"

namespace carillon {

/// How the ranks share the training records.
enum class Sharding {
  record,  ///< all ranks divide each global batch: its samples do not depend on the number of ranks
  file     ///< each rank reads only its own files
};

/// How the samples of a training are drawn from its records.
enum class Sampling {
  uniform,  ///< each record once per epoch
  balanced  ///< each group of the task, such as a class, equally often
};

struct DataOptions {
  std::vector<std::string> files;       ///< paths and patterns of TFRecord files, or only "synthetic"
  std::vector<std::string> eval_files;  ///< files for evaluations during training; empty: no evaluations
  RecordForm record_form;               ///< not an option
  std::string image_key, label_key;     ///< features of a record; empty: those of record_form
  /// Steps between evaluations on eval_files; 0: at the end only. A completed training always ends with one.
  std::int64_t eval_every = 0;
  /// Records per batch of these evaluations on CPUs; a GPU uses this number or more. Not an option. A multiple of 48:
  /// oneDNN's AVX2 products process rows in blocks of 6 per thread and round the rows of an incomplete block otherwise,
  /// so that the result of a record would depend on its place in the batch and on the number of threads.
  std::int64_t evaluation_batch = 192;
  bool test_time_augmentation = false;  ///< in evaluations: mean over six views of each image

  /// Samples per rank and step. With global_batch, the program sets it to global_batch / number of ranks.
  std::int64_t batch_size = 100;
  std::int64_t global_batch = 0;  ///< samples per step over all ranks; 0: batch_size for each rank
  /// Samples per forward and backward pass; 0: batch_size. Requires global_batch, which is a multiple of it.
  std::int64_t micro_batch = 0;

  bool shuffle = true;  ///< in a new order each epoch
  /// Records that are shuffled at a time and read ahead in long runs, at least the samples of a step; 0: all records.
  std::int64_t shuffle_window = 0;
  Sampling sampling = Sampling::uniform;  ///< balanced: without shuffle_window and Sharding::file
  Sharding sharding = Sharding::record;
  std::string stage;  ///< local directory on each host to copy the files to; empty: no copies
  CacheMode cache = CacheMode::automatic;
  bool skip_damaged = false;  ///< replace each damaged training record by the next one
  /// Threads per rank that decode records that are not in memory; 0: 2 (CPUs) or the rank's cores (GPUs).
  std::int64_t decode_threads = 0;
  /// Buffer for decoded images per rank, in bytes; 0: one batch per decoding thread plus three.
  std::int64_t prefetch_bytes = 0;

  double pixel_scale = 1.0;  ///< factor for pixels 0..255
  bool distort = true;       ///< random distortion of training images, by networks or decoders that support it
  /// Largest random changes of training images (WarpSettings): rotation in degrees, zoom as a fraction (factors from
  /// 1 - zoom to 1 + zoom), shift as a fraction of height and width. 0: disabled.
  double rotate = 0.0, zoom = 0.0, shift = 0.0;
  double mixup = 0.0, cutmix = 0.0;  ///< mixing of pairs of training samples (MixingSettings)
  std::optional<PixelNormalization> normalization = std::nullopt;  ///< replaces the network's own; not an option

  /// Samples of a rank that pass through the network at once.
  std::int64_t samples_at_once() const { return micro_batch > 0 ? micro_batch : batch_size; }
};

/// Whether `files` request noise images instead of files: the only item is "synthetic".
inline bool is_synthetic(const std::vector<std::string>& files) {
  return files.size() == 1 && files.front() == "synthetic";
}

}  // namespace carillon
