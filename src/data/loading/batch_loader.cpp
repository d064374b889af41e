#include "src/data/loading/batch_loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/dataset.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

/// What a batch contains.
enum class BatchForm {
  whole,
  records,  ///< only record numbers, if the dataset is in memory; otherwise the same as `whole`
};

/// The source of the batches of a BatchLoader: a dataset in memory, or threads that decode ahead.
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

namespace {

/// Batches of a dataset in memory: pointers into the dataset. Checks each record just before its use, so that no memory
/// error in the dataset reaches a step.
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

/// A thread that reads the windows of a stream (SampleOrder) sequentially before their records are decoded.
///
/// The thread brings file contents into the page cache. A parallel file system then gets large sequential reads, and
/// the decoding threads find most records in memory. This thread reads the part of the window that belongs to this
/// process; other processes of the host read the other parts. Requires free memory for two windows.
class ReadAhead {
 public:
  /// Starts with the window of `position`. `dataset` must outlive the object; `order` must have windows.
  ReadAhead(const Dataset& dataset, SampleOrder order, std::uint64_t position, const ReadingPart& part);

  /// Waits until the window of `position` is read, then allows the next window to be read. `position` must not decrease
  /// from call to call. `position` must belong to the same share as the position that was passed to the constructor.
  void await(std::uint64_t position, const std::stop_token& stop);
  /// Counter that increases while the thread makes progress. Thread-safe.
  std::uint64_t progress() const { return pieces_read_.load(std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop);
  void fetch(const std::stop_token& stop);

  const Dataset& dataset_;
  SampleOrder order_;
  ReadingPart part_;
  std::atomic<std::uint64_t> pieces_read_{0};

  std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  SampleOrder::Window next_;  // the window to read next
  const std::uint64_t share_;
  // In samples: the end of the last window that was read, and the end of the last window that the thread may read.
  std::uint64_t read_end_, wanted_end_;
  std::jthread thread_;  // last member, because the thread uses the members above
};

ReadAhead::ReadAhead(const Dataset& dataset, SampleOrder order, std::uint64_t position, const ReadingPart& part)
    : dataset_(dataset),
      order_(std::move(order)),
      part_(part),
      next_(order_.window_at(position)),
      share_(next_.share),
      read_end_(next_.begin),
      wanted_end_(next_.end),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void ReadAhead::await(std::uint64_t position, const std::stop_token& stop) {
  const SampleOrder::Window window = order_.window_at(position);
  check(window.share == share_, "the batch belongs to another share than the loader's first batch");
  std::unique_lock lock(mutex_);
  if (const std::uint64_t end = order_.window_after(window).end; end > wanted_end_) {
    wanted_end_ = end;
    changed_.notify_all();
  }
  changed_.wait(lock, stop, [&] { return read_end_ >= window.end; });
}

/// Reads this process's part of the next window.
void ReadAhead::fetch(const std::stop_token& stop) {
  constexpr std::size_t piece = 1024;  // records per update of the progress counter
  const std::vector<std::uint32_t> records = order_.records_in(next_);
  const std::size_t end = records.size() * (part_.number + 1) / part_.count;
  for (std::size_t begin = records.size() * part_.number / part_.count; begin < end; begin += piece) {
    dataset_.fetch(std::span(records).subspan(begin, std::min(piece, end - begin)), stop);
    pieces_read_.fetch_add(1, std::memory_order_relaxed);
  }
}

void ReadAhead::run(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return next_.end <= wanted_end_; })) return;
    }
    try {
      fetch(stop);
    } catch (const std::exception&) {
      // The error is ignored: the decoding thread finds the same error and reports it.
    }
    {
      const std::lock_guard lock(mutex_);
      read_end_ = next_.end;
      next_ = order_.window_after(next_);
    }
    changed_.notify_all();
  }
}

/// A batch that is being decoded or has been decoded.
struct Slot {
  std::vector<std::uint8_t> pixels;  // [batch][image_bytes]
  std::vector<const std::uint8_t*> images;
  std::vector<std::byte> targets;  // [batch][target_bytes]
  std::vector<std::uint32_t> records;
  BatchPlan::Samples samples{};
  Batch batch;
  std::exception_ptr error;  // set if decoding failed
  bool is_ready = false;     // the source's mutex guards this

  Slot(std::size_t batch_size, const Dataset& dataset)
      : pixels(batch_size * dataset.image_bytes()),
        images(batch_size),
        targets(batch_size * dataset.target_bytes()),
        records(batch_size) {}

  void decode(const Dataset& dataset);
};

void Slot::decode(const Dataset& dataset) {
  const std::size_t image_bytes = dataset.image_bytes(), batch_size = records.size();
  const auto target_of = [&](std::size_t i) {
    return std::span(targets).subspan(i * dataset.target_bytes(), dataset.target_bytes());
  };
  for (std::size_t i = 0; i < samples.valid_count; ++i) {
    const std::span<std::uint8_t> image{pixels.data() + i * image_bytes, image_bytes};
    dataset.read(records[i], samples.first_position + i, image, target_of(i));
    images[i] = image.data();
  }
  for (std::size_t i = samples.valid_count; i < batch_size; ++i) {
    std::ranges::copy(target_of(samples.valid_count - 1), target_of(i).begin());
    images[i] = images[samples.valid_count - 1];
  }
  batch = {.images = images,
           .targets = targets,
           .records = records,
           .first_position = samples.first_position,
           .padding = batch_size - samples.valid_count};
}

/// Decodes batches before they are used. A batch has a slot in a ring: batch n uses slot n modulo the slot count.
/// Threads claim batches in order and stop claiming after an error, so all batches before the first error are decoded.
/// The batch returned last keeps its slot until the next call.
class PrefetchSource final : public BatchSource {
 public:
  PrefetchSource(const Dataset& dataset, SampleOrder order, const StreamSlice& slice, const PrefetchSettings& settings)
      : dataset_(dataset), heartbeat_(settings.heartbeat), plan_(order, slice), batch_size_(slice.batch_size) {
    const std::size_t slot_count = count_slots(settings, slice.batch_size * dataset.image_bytes());
    for (std::size_t i = 0; i < slot_count; ++i) slots_.emplace_back(slice.batch_size, dataset);
    if (order.shuffles() && !order.has_windows()) dataset.expect_random_order();
    if (order.has_windows() && plan_.has_next()) {
      read_ahead_.emplace(dataset, std::move(order), slice.start + slice.tower_offset, settings.part);
    }
    for (int i = 0; i < settings.thread_count; ++i) threads_.emplace_back([this] { run(); });
  }

  const Batch& next(BatchForm /*form*/) override {
    std::unique_lock lock(mutex_);
    if (is_given_) {
      slot_of(given_back_).is_ready = false;
      ++given_back_;
      is_given_ = false;
      changed_.notify_all();
    }
    Slot& slot = slot_of(given_back_);
    wait_for(slot, lock);
    if (slot.error) std::rethrow_exception(slot.error);
    is_given_ = true;
    return slot.batch;
  }

  const Batch& whole() override { return slot_of(given_back_).batch; }

 private:
  static std::size_t count_slots(const PrefetchSettings& settings, std::size_t batch_bytes) {
    constexpr std::size_t spare_slots = 3;  // number of decoded batches that wait while each thread decodes another
                                            // batch
    if (settings.bytes > 0) return std::max<std::size_t>(settings.bytes / batch_bytes, 2);
    return static_cast<std::size_t>(settings.thread_count) + spare_slots;
  }

  Slot& slot_of(std::uint64_t batch) { return slots_[batch % slots_.size()]; }

  /// Waits until the slot is ready. Meanwhile it calls the heartbeat as long as reading makes progress, because the
  /// first batch of a window can take long.
  void wait_for(const Slot& slot, std::unique_lock<std::mutex>& lock) {
    std::uint64_t seen = 0;
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [&] { return slot.is_ready; })) {
      const std::uint64_t now = read_ahead_ ? read_ahead_->progress() : 0;
      if (std::exchange(seen, now) != now) heartbeat_();
    }
  }

  void run() {
    while (Slot* const slot = claim()) {
      attempt(*slot, [&] { slot->decode(dataset_); });
      {
        const std::lock_guard lock(mutex_);
        slot->is_ready = true;
        has_failed_ = has_failed_ || slot->error;
      }
      changed_.notify_all();
    }
  }

  /// Returns the slot of the next batch, with its sample numbers set. Returns null if no batch remains.
  Slot* claim() {
    const std::lock_guard claiming(claim_mutex_);
    if (!plan_.has_next()) return nullptr;
    {
      std::unique_lock lock(mutex_);
      const auto may_go_on = [&] { return has_failed_ || claimed_ < given_back_ + slots_.size(); };
      if (!changed_.wait(lock, stop_.get_token(), may_go_on) || has_failed_ || stop_.stop_requested()) return nullptr;
    }
    Slot& slot = slot_of(claimed_++);
    attempt(slot, [&] {
      if (read_ahead_) read_ahead_->await(plan_.last_position(batch_size_), stop_.get_token());
      slot.samples = plan_.next(slot.records);  // slow if a new epoch needs a permutation
    });
    return &slot;
  }

  /// Runs `work` for the batch of a slot. Does nothing if the batch has already failed.
  template <typename Work>
  static void attempt(Slot& slot, const Work& work) {
    if (slot.error) return;
    try {
      work();
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  const Dataset& dataset_;
  std::function<void()> heartbeat_;
  std::vector<Slot> slots_;

  std::mutex claim_mutex_;  // lock it before mutex_; it guards the four members below
  BatchPlan plan_;
  std::size_t batch_size_;
  std::optional<ReadAhead> read_ahead_;
  std::uint64_t claimed_ = 0;  // number of batches that threads have claimed

  std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  std::uint64_t given_back_ = 0;  // number of batches that the caller no longer uses
  bool is_given_ = false;         // true: the caller uses batch number `given_back_`
  bool has_failed_ = false;

  std::stop_source stop_;
  std::vector<std::jthread> threads_;
  // Last member, so that it is destroyed first. Its destructor requests the stop before the threads are joined, even if
  // a thread could not be started.
  struct StopAtEnd {
    std::stop_source& stop;
    ~StopAtEnd() { stop.request_stop(); }
  } stop_at_end_{stop_};
};

}  // namespace

BatchLoader::BatchLoader(const Dataset& dataset, SampleOrder order, const StreamSlice& slice,
                         const PrefetchSettings& prefetch)
    : next_first_(slice.start + slice.tower_offset), end_(slice.end), global_batch_(slice.global_batch) {
  check(slice.batch_size > 0 && slice.tower_offset + slice.batch_size <= slice.global_batch,
        "the batch of a rank must be within the global batch");
  check(prefetch.thread_count > 0, "decoding ahead requires at least one thread");
  if (dataset.in_memory()) {
    source_ = std::make_unique<CachedSource>(dataset, std::move(order), slice);
  } else {
    source_ = std::make_unique<PrefetchSource>(dataset, std::move(order), slice, prefetch);
  }
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
