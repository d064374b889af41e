// DataOptions: which records a training or an evaluation reads, in which order and batches, and how it augments images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/data/cache_mode.h"
#include "carillon/data/record_form.h"
#include "carillon/models/network.h"

namespace carillon {

/// How the ranks share the training records.
enum class Sharding {
  record,  ///< all ranks divide each global batch: its samples do not depend on the number of ranks
  file     ///< each rank reads only its own files
};

struct DataOptions {
  std::vector<std::string> files;       ///< paths and patterns of TFRecord files, or only "synthetic"
  std::vector<std::string> eval_files;  ///< files for evaluations during training; empty: no evaluations
  RecordForm record_form;               ///< set by the program, not an option
  std::string image_key, label_key;     ///< features of a record; empty: those of record_form
  std::int64_t eval_every = 0;          ///< steps between evaluations; 0: at the end only
  std::int64_t evaluation_batch = 200;  ///< records per batch in these evaluations; not an option
  bool test_time_augmentation = false;  ///< in evaluations: several views per image; requires colour images

  std::int64_t batch_size = 100;  ///< samples per rank and step, or the rank's part of a global batch
  std::int64_t global_batch = 0;  ///< samples per step over all ranks; 0: batch_size for each rank
  std::int64_t micro_batch = 0;   ///< samples per forward and backward pass; 0: batch_size

  bool shuffle = true;              ///< in a new order each epoch
  std::int64_t shuffle_window = 0;  ///< records per separately shuffled part (SampleOrder); 0: all records
  Sharding sharding = Sharding::record;
  std::string stage;  ///< local directory on each host to copy the files to; empty: no copies
  CacheMode cache = CacheMode::automatic;
  bool skip_damaged = false;        ///< replace each damaged training record by the next one
  std::int64_t decode_threads = 0;  ///< per rank, for records that are not in memory; 0: depends on the device
  std::int64_t prefetch_bytes = 0;  ///< buffer for decoded images, per rank; 0: see PrefetchSettings

  double pixel_scale = 1.0;                      ///< factor for pixels 0..255
  bool distort = true;                           ///< random distortion; requires colour images
  double rotate = 0.0, zoom = 0.0, shift = 0.0;  ///< random changes of training images (WarpSettings)
  double mixup = 0.0, cutmix = 0.0;              ///< mixing of pairs of training samples (MixingSettings)
  std::optional<PixelNormalization> normalization = std::nullopt;  ///< replaces the network's own; not an option

  /// Samples of a rank that pass through the network at once.
  std::int64_t samples_at_once() const { return micro_batch > 0 ? micro_batch : batch_size; }
};

/// Whether `files` request noise images instead of files: the only item is "synthetic".
inline bool is_synthetic(const std::vector<std::string>& files) {
  return files.size() == 1 && files.front() == "synthetic";
}

}  // namespace carillon
