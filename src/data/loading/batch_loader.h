// BatchLoader: loads the batches of one rank in stream order. Training reads an endless stream; an evaluation reads a
// part of the dataset.
//
// Global step s uses the stream positions [start + s*G, start + (s+1)*G) with G = global batch. The rank's batch starts
// at offset `tower_offset` in this range. If the dataset is in memory, a batch is a list of pointers into it, without
// copies. Otherwise threads decode batches ahead of use; the batches and errors are the same for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "carillon/core/sample.h"
#include "carillon/data/dataset.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

/// Part of the sample stream that one rank reads.
struct StreamSlice {
  std::uint64_t start = 0;         ///< stream position of the first global batch
  std::uint64_t global_batch = 1;  ///< samples of all ranks per step
  std::uint64_t tower_offset = 0;  ///< offset of this rank's first sample in the global batch
  std::size_t batch_size = 1;      ///< samples of this rank per step
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< first stream position that is not read
};

/// The part of a window's records (SampleOrder) that this process reads from the files, if several processes of one
/// host divide the reading.
struct ReadingPart {
  std::size_t number = 0, count = 1;
};

/// Settings for reading and decoding ahead, if the dataset is not in memory.
struct PrefetchSettings {
  int thread_count = 2;
  std::size_t bytes = 0;  ///< buffer for decoded images, at least 2 batches; 0: thread_count + 3 batches
  ReadingPart part = {};
  /// Called about once per second while `next` waits for records, as long as reading makes progress.
  std::function<void()> heartbeat = [] {};
};

class BatchSource;
enum class BatchForm;

class BatchLoader {
 public:
  /// `dataset` must outlive the loader.
  BatchLoader(const Dataset& dataset, SampleOrder order, const StreamSlice& slice,
              const PrefetchSettings& prefetch = {});
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Whether the slice has another batch.
  bool has_next() const { return next_first_ < end_; }

  /// Returns the next step's batch, valid until the next call. If the batch reaches beyond the slice's end, it repeats
  /// the last sample and sets Batch::padding. Requires has_next(). Errors: as Dataset::read. The call that requests the
  /// batch with the faulty record throws, and so does every later call.
  const Batch& next();
  /// Like `next`, but if the dataset is in memory, the batch has record numbers instead of images and targets.
  const Batch& next_by_records();
  /// The last returned batch, with images and targets.
  const Batch& whole();

 private:
  const Batch& next(BatchForm form);

  std::uint64_t next_first_, end_, global_batch_;  // stream positions, and their distance per step
  std::unique_ptr<BatchSource> source_;
};

}  // namespace carillon
