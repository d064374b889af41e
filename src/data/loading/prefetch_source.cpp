#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "src/data/loading/batch_source.h"
#include "src/data/loading/read_ahead.h"

namespace carillon {
namespace {

/// A batch that is being decoded or is decoded.
struct Slot {
  std::vector<std::uint8_t> pixels;  // [batch][image_bytes]
  std::vector<const std::uint8_t*> images;
  std::vector<std::byte> targets;  // [batch][target_bytes]
  std::vector<std::uint32_t> records;
  BatchPlan::Samples samples{};
  Batch batch;
  std::exception_ptr error;  // set if decoding failed
  bool is_ready = false;     // guarded by the source's mutex

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

/// Decodes batches ahead of use into a ring of slots: batch n uses slot n modulo the slot count. Threads claim batches
/// in order and stop claiming after an error, so all batches before the first error are decoded. The batch returned
/// last keeps its slot until the next call.
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
    constexpr std::size_t spare_slots = 3;  // decoded batches that wait while each thread decodes another one
    if (settings.bytes > 0) return std::max<std::size_t>(settings.bytes / batch_bytes, 2);
    return static_cast<std::size_t>(settings.thread_count) + spare_slots;
  }

  Slot& slot_of(std::uint64_t batch) { return slots_[batch % slots_.size()]; }

  /// Calls the heartbeat while reading makes progress. The first batch of a window can take long.
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

  /// Slot of the next batch, with its sample numbers set; null if no batch remains.
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

  /// Runs `work` for a slot's batch, unless the batch has failed already.
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

  std::mutex claim_mutex_;  // lock before mutex_; guards the next four members
  BatchPlan plan_;
  std::size_t batch_size_;
  std::optional<ReadAhead> read_ahead_;
  std::uint64_t claimed_ = 0;  // number of batches that threads have claimed

  std::mutex mutex_;  // guards the next members
  std::condition_variable_any changed_;
  std::uint64_t given_back_ = 0;  // number of batches that the caller no longer uses
  bool is_given_ = false;         // whether the caller uses batch number `given_back_`
  bool has_failed_ = false;

  std::stop_source stop_;
  std::vector<std::jthread> threads_;
  // Last member, so it is destroyed first: it requests the stop before the threads are joined, also if a thread could
  // not be started.
  struct StopAtEnd {
    std::stop_source& stop;
    ~StopAtEnd() { stop.request_stop(); }
  } stop_at_end_{stop_};
};

}  // namespace

std::unique_ptr<BatchSource> make_prefetch_source(const Dataset& dataset, SampleOrder order, const StreamSlice& slice,
                                                  const PrefetchSettings& settings) {
  return std::make_unique<PrefetchSource>(dataset, std::move(order), slice, settings);
}

}  // namespace carillon
