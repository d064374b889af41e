#include "carillon/data/batch_loader.h"

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// The stream positions of a tower's batches, one after the other.
class BatchPositions {
 public:
  explicit BatchPositions(const StreamSlice& slice)
      : next_(slice.start + slice.tower_offset), step_(slice.global_batch) {}
  std::uint64_t take() { return std::exchange(next_, next_ + step_); }

 private:
  std::uint64_t next_, step_;
};

}  // namespace

class BatchLoader::Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual const Batch& next() = 0;
};

/// Batches of a set in memory: pointers into it.
class BatchLoader::MemorySource final : public Source {
 public:
  MemorySource(const Dataset& dataset, SampleOrder order, const StreamSlice& slice)
      : dataset_(dataset),
        order_(std::move(order)),
        positions_(slice),
        images_(slice.batch_size),
        labels_(slice.batch_size),
        records_(slice.batch_size) {}

  const Batch& next() override {
    const std::uint64_t first = positions_.take();
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const std::uint64_t record = order_.record_at(first + i);
      images_[i] = dataset_.image(record);
      labels_[i] = dataset_.label(record);
      records_[i] = static_cast<std::uint32_t>(record);
    }
    batch_ = {images_, labels_, records_, first};
    return batch_;
  }

 private:
  const Dataset& dataset_;
  SampleOrder order_;
  BatchPositions positions_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint32_t> records_;
  Batch batch_;
};

/// Batches decoded ahead by a thread into a ring of slots; the batch given out keeps its slot until the next call.
class BatchLoader::PrefetchSource final : public Source {
 public:
  PrefetchSource(const Dataset& dataset, SampleOrder order, const StreamSlice& slice)
      : dataset_(dataset), order_(std::move(order)), positions_(slice) {
    for (Slot& slot : slots_) slot.resize(slice.batch_size, dataset.image_bytes());
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  const Batch& next() override {
    std::unique_lock lock(mutex_);
    if (given_) {
      given_ = false;
      ++taken_;
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return filled_ > taken_ || error_; });
    if (filled_ == taken_) std::rethrow_exception(error_);
    given_ = true;
    return slots_[taken_ % slots_.size()].batch;
  }

 private:
  struct Slot {
    std::vector<std::uint8_t> pixels;  // [batch][image_bytes]
    std::vector<const std::uint8_t*> images;
    std::vector<std::int32_t> labels;
    std::vector<std::uint32_t> records;
    Batch batch;

    void resize(std::size_t batch_size, std::size_t image_bytes) {
      pixels.resize(batch_size * image_bytes);
      labels.resize(batch_size);
      records.resize(batch_size);
      for (std::size_t i = 0; i < batch_size; ++i) images.push_back(pixels.data() + i * image_bytes);
    }
  };

  void run(const std::stop_token& stop) {
    try {
      for (std::uint64_t step = 0;; ++step) {
        {
          std::unique_lock lock(mutex_);
          if (!changed_.wait(lock, stop, [&] { return step < taken_ + slots_.size(); })) return;
        }
        fill(slots_[step % slots_.size()]);
        announce([&] { filled_ = step + 1; });
      }
    } catch (...) {
      announce([&] { error_ = std::current_exception(); });
    }
  }

  void fill(Slot& slot) {
    const std::uint64_t first = positions_.take();
    const std::size_t image_bytes = dataset_.image_bytes();
    for (std::size_t i = 0; i < slot.labels.size(); ++i) {
      const std::uint64_t record = order_.record_at(first + i);
      slot.labels[i] = dataset_.read(record, {slot.pixels.data() + i * image_bytes, image_bytes});
      slot.records[i] = static_cast<std::uint32_t>(record);
    }
    slot.batch = {slot.images, slot.labels, slot.records, first};
  }

  template <typename Change>
  void announce(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  static constexpr std::size_t slot_count = 4;

  const Dataset& dataset_;
  SampleOrder order_;
  BatchPositions positions_;
  std::array<Slot, slot_count> slots_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::uint64_t filled_ = 0, taken_ = 0;  // batches decoded; batches given out and given back
  bool given_ = false;                    // whether batch number `taken_` is with the caller
  std::exception_ptr error_;

  std::jthread thread_;  // last: it ends before anything it uses
};

BatchLoader::BatchLoader(const Dataset& dataset, SampleOrder order, const StreamSlice& slice) {
  check(slice.batch_size > 0 && slice.tower_offset + slice.batch_size <= slice.global_batch,
        "a tower's batch lies within the global batch");
  if (dataset.in_memory())
    source_ = std::make_unique<MemorySource>(dataset, std::move(order), slice);
  else
    source_ = std::make_unique<PrefetchSource>(dataset, std::move(order), slice);
}

BatchLoader::~BatchLoader() = default;

const Batch& BatchLoader::next() { return source_->next(); }

}  // namespace carillon
