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
  record,  ///< by global batch: the samples do not depend on the number of ranks
  file     ///< by file: each rank draws from its own files
};

struct DataOptions {
  std::vector<std::string> files;       ///< paths and patterns of TFRecord files, or what is_synthetic asks for
  std::vector<std::string> eval_files;  ///< records for evaluations during training; empty: no evaluations
  RecordForm record_form;               ///< set by the program, not an option
  std::string image_key, label_key;     ///< features of a record; empty: those of record_form
  std::int64_t eval_every = 0;          ///< steps between evaluations; 0: at the end only
  std::int64_t evaluation_batch = 200;  ///< records per batch of those evaluations; not an option
  bool test_time_augmentation = false;  ///< in evaluations (EvaluatorSettings); requires colour images

  std::int64_t batch_size = 100;  ///< samples per rank and step, or the rank's part of a global batch
  std::int64_t global_batch = 0;  ///< samples per step over all ranks; 0: batch_size for each rank
  std::int64_t micro_batch = 0;   ///< samples per forward and backward pass; 0: batch_size

  bool shuffle = true;              ///< in a new order each epoch
  std::int64_t shuffle_window = 0;  ///< records that are shuffled among each other (SampleOrder); 0: all
  Sharding sharding = Sharding::record;
  std::string stage;  ///< directory of each host to which the files are copied; empty: none
  CacheMode cache = CacheMode::automatic;
  bool skip_damaged = false;        ///< replace each damaged training record by the next one
  std::int64_t decode_threads = 0;  ///< per rank, for records that are not in memory; 0: depends on the device
  std::int64_t prefetch_bytes = 0;  ///< bytes of decoded images per rank; 0: as PrefetchSettings

  double pixel_scale = 1.0;                                        ///< factor for pixels 0..255
  bool distort = true;                                             ///< random distortion; requires colour images
  double rotate = 0.0, zoom = 0.0, shift = 0.0;                    ///< of training images (WarpSettings)
  double mixup = 0.0, cutmix = 0.0;                                ///< of training batches (MixingSettings)
  std::optional<PixelNormalization> normalization = std::nullopt;  ///< replaces the network's own; not an option

  /// Samples of a rank that pass through the network at once.
  std::int64_t samples_at_once() const { return micro_batch > 0 ? micro_batch : batch_size; }
};

/// Whether `files` ask for noise images in place of records.
inline bool is_synthetic(const std::vector<std::string>& files) {
  return files.size() == 1 && files.front() == "synthetic";
}

}  // namespace carillon
