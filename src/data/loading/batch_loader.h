// BatchLoader: loads the batches of one rank in stream order. Training reads an endless stream; an evaluation reads a
// part of the dataset.
//
// Global step s uses the stream positions [start + s*G, start + (s+1)*G). G is the global batch. The rank's batch
// starts at offset `tower_offset` in this range. If the dataset is in memory, a batch is a list of pointers into the
// dataset, without copies. Otherwise threads decode batches before they are used. The batches and errors do not depend
// on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>

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

/// The samples of the batches of a slice, in order.
class BatchPlan {
 public:
  BatchPlan(SampleOrder order, const StreamSlice& slice)
      : order_(std::move(order)),
        first_(slice.start + slice.tower_offset),
        step_(slice.global_batch),
        end_(slice.end) {}

  bool has_next() const { return first_ < end_; }
  /// Returns the stream position of the next batch's last sample. Requires has_next().
  std::uint64_t last_position(std::size_t batch_size) const {
    return std::min<std::uint64_t>(first_ + batch_size, end_) - 1;
  }

  struct Samples {
    std::uint64_t first_position;
    std::size_t valid_count;  ///< the remaining samples repeat the last valid sample
  };
  /// Fills `records` with the record numbers of the next batch's samples. Requires has_next().
  Samples next(std::span<std::uint32_t> records) {
    const Samples samples{first_, std::min<std::uint64_t>(records.size(), end_ - first_)};
    order_.records_at(first_, records.first(samples.valid_count));
    std::ranges::fill(records.subspan(samples.valid_count), records[samples.valid_count - 1]);
    first_ += step_;
    return samples;
  }

 private:
  SampleOrder order_;
  std::uint64_t first_, step_, end_;
};

/// The part of a window's records (SampleOrder) that this process reads from the files. Several processes of one host
/// can divide the reading.
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

  /// True if the slice has another batch.
  bool has_next() const { return next_first_ < end_; }

  /// Returns the next step's batch, which is valid until the next call. If fewer samples than a batch are left in the
  /// slice, the batch repeats the last sample and sets Batch::padding. Requires has_next(). Errors: see Dataset::read.
  /// If a batch contains a faulty record, the call that requests this batch throws. Every later call also throws.
  const Batch& next();
  /// Does the same as `next`, with one difference: if the dataset is in memory, the batch has record numbers instead of
  /// images and targets.
  const Batch& next_by_records();
  /// Returns the batch that was returned last, with images and targets.
  const Batch& whole();

 private:
  const Batch& next(BatchForm form);

  // The members are two stream positions, and the number by which next_first_ increases per step.
  std::uint64_t next_first_, end_, global_batch_;
  std::unique_ptr<BatchSource> source_;
};

}  // namespace carillon
