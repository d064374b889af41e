// BatchLoader: one tower's batches, in stream order: for training without an end, for evaluation a part of the set.
//
// Global step s takes stream positions [start + s*G, start + (s+1)*G) with G = global batch; this tower's batch starts
// at offset `tower_offset` in that range. From an in-memory dataset a batch is a list of pointers into the set and
// costs no copy; otherwise threads decode ahead, as many as asked for, with the same batches and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "carillon/core/batch.h"
#include "carillon/data/dataset.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

/// Which part of the stream a tower reads.
struct StreamSlice {
  std::uint64_t start = 0;                                        ///< stream position of the first global batch
  std::uint64_t global_batch = 1;                                 ///< samples all towers take together per step
  std::uint64_t tower_offset = 0;                                 ///< of this tower's first sample in the global batch
  std::size_t batch_size = 1;                                     ///< samples this tower takes per step
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< no position from here on is taken
};

/// Which part of a window's records (SampleOrder) a process reads, where several of one host read it together.
struct ReadingPart {
  std::size_t number = 0, count = 1;
};

/// How a set that is not in memory is read and decoded ahead of its use.
struct PrefetchSettings {
  int thread_count = 2;
  std::size_t bytes = 0;  ///< of decoded images, at least two batches'; 0: a batch for each thread, and three
  ReadingPart part = {};
  /// Called about once a second while `next` waits for records that are being read.
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

  /// The next step's batch, valid until the next call. One that would reach beyond the slice's end repeats its last
  /// sample and says so (Batch::padding). Requires has_next().
  /// Errors: those of Dataset::read, when the batch with the record is asked for, and at each call after.
  const Batch& next();
  /// As `next`, but of a set in memory the batch has record numbers, and neither images nor targets.
  const Batch& next_by_records();
  /// The batch given last, with images and targets.
  const Batch& whole();

 private:
  const Batch& next(BatchForm form);

  std::uint64_t next_first_, end_, global_batch_;  // stream positions, and what is between them
  std::unique_ptr<BatchSource> source_;
};

}  // namespace carillon
