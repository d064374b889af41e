#include "src/data/loading/batch_loader.h"

#include "carillon/core/error.h"
#include "src/data/loading/batch_source.h"

namespace carillon {

BatchLoader::BatchLoader(const Dataset& dataset, SampleOrder order, const StreamSlice& slice,
                         const PrefetchSettings& prefetch)
    : next_first_(slice.start + slice.tower_offset), end_(slice.end), global_batch_(slice.global_batch) {
  check(slice.batch_size > 0 && slice.tower_offset + slice.batch_size <= slice.global_batch,
        "the batch of a rank must be within the global batch");
  check(prefetch.thread_count > 0, "decoding ahead requires at least one thread");
  source_ = dataset.in_memory() ? make_cached_source(dataset, std::move(order), slice)
                                : make_prefetch_source(dataset, std::move(order), slice, prefetch);
}

BatchLoader::~BatchLoader() = default;

const Batch& BatchLoader::next() { return next(BatchForm::whole); }
const Batch& BatchLoader::next_by_records() { return next(BatchForm::records); }
const Batch& BatchLoader::whole() { return source_->whole(); }

const Batch& BatchLoader::next(BatchForm form) {
  check(has_next(), "no batch remains in the slice");
  const Batch& batch = source_->next(form);
  next_first_ += global_batch_;
  return batch;
}

}  // namespace carillon
