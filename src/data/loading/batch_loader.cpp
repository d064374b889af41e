#include "src/data/loading/batch_loader.h"

#include <vector>

#include "carillon/core/error.h"
#include "src/data/loading/batch_source.h"

namespace carillon {
namespace {

/// Batches of a dataset in memory: pointers into the dataset. Each record is checked just before it is used, so that no
/// memory error in the dataset reaches a step.
class CachedSource final : public BatchSource {
 public:
  CachedSource(const Dataset& dataset, SampleOrder order, const StreamSlice& slice)
      : dataset_(dataset),
        plan_(std::move(order), slice),
        images_(slice.batch_size),
        targets_(slice.batch_size * dataset.target_bytes()),
        records_(slice.batch_size) {}

  const Batch& next(BatchForm form) override {
    const BatchPlan::Samples samples = plan_.next(records_);
    batch_ = {.images = {},
              .targets = {},
              .records = records_,
              .first_position = samples.first_position,
              .padding = records_.size() - samples.valid_count};
    return form == BatchForm::whole ? whole() : batch_;
  }

  const Batch& whole() override {
    if (!batch_.images.empty()) return batch_;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      dataset_.check_unchanged(records_[i]);
      images_[i] = dataset_.image(records_[i]);
      std::ranges::copy(dataset_.target(records_[i]), targets_.begin() + i * dataset_.target_bytes());
    }
    batch_.images = images_;
    batch_.targets = targets_;
    return batch_;
  }

 private:
  const Dataset& dataset_;
  BatchPlan plan_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::byte> targets_;
  std::vector<std::uint32_t> records_;
  Batch batch_;
};

}  // namespace

std::unique_ptr<BatchSource> make_cached_source(const Dataset& dataset, SampleOrder order, const StreamSlice& slice) {
  return std::make_unique<CachedSource>(dataset, std::move(order), slice);
}

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
