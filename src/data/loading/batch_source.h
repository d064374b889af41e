// BatchSource: internal interface of BatchLoader. There are two sources: one reads a dataset in memory, and the other
// decodes ahead with threads.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "src/data/loading/batch_loader.h"

namespace carillon {

/// Contents of a batch.
enum class BatchForm {
  whole,
  records,  ///< record numbers only, if the dataset is in memory
};

class BatchSource {
 public:
  BatchSource() = default;
  virtual ~BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  /// Implements BatchLoader::next and next_by_records.
  virtual const Batch& next(BatchForm form) = 0;
  /// Implements BatchLoader::whole.
  virtual const Batch& whole() = 0;
};

std::unique_ptr<BatchSource> make_cached_source(const Dataset& dataset, SampleOrder order, const StreamSlice& slice);
std::unique_ptr<BatchSource> make_prefetch_source(const Dataset& dataset, SampleOrder order, const StreamSlice& slice,
                                                  const PrefetchSettings& settings);

/// Samples of a slice's batches, in order.
class BatchPlan {
 public:
  BatchPlan(SampleOrder order, const StreamSlice& slice)
      : order_(std::move(order)),
        first_(slice.start + slice.tower_offset),
        step_(slice.global_batch),
        end_(slice.end) {}

  bool has_next() const { return first_ < end_; }
  /// Stream position of the next batch's last sample. Requires has_next().
  std::uint64_t last_position(std::size_t batch_size) const {
    return std::min<std::uint64_t>(first_ + batch_size, end_) - 1;
  }

  struct Samples {
    std::uint64_t first_position;
    std::size_t valid_count;  ///< the remaining samples repeat the last valid one
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

}  // namespace carillon
