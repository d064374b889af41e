// The SharedHostMemory of the ranks of one host, in shared memory with one counter per rank.
#include "src/comm/allreduce/shared_host_memory.h"

#include <cstring>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "src/comm/transport/shared_memory.h"

namespace carillon {
namespace {

class HostMemory final : public SharedHostMemory {
 public:
  HostMemory(const Members& host, const std::unique_ptr<SharedArrays>& own, SumOrder order, float factor)
      : host_(host), own_(own), order_(order), factor_(factor) {}

  Buffer allocate(std::size_t bytes) override;
  void meet() override;
  void meet_after_update(const std::function<void(int rank)>& finish) override;
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::byte* on_rank(int rank, std::byte* own) const override;
  void means_of(std::span<const float> values, const TakeMeans& take) const override;
  void gather(std::span<float> values) const override;

 private:
  /// Returns the address in the own array of `rank` that corresponds to `values` in this rank's own array.
  const float* peers_copy(int rank, const float* values) const { return own_->array(rank) + (values - own_->own()); }
  /// If no lower rank is alive: calls finish(rank) for each ended rank that has not arrived.
  void finish_for_ended(const std::function<void(int rank)>& finish);

  const Members& host_;
  const std::unique_ptr<SharedArrays>& own_;
  SumOrder order_;
  float factor_;
  std::unique_ptr<SharedArrays> shared_;  // the array belongs to rank 0. `started`: number of meetings of a rank
  std::uint64_t meetings_ = 0;
};

Buffer HostMemory::allocate(std::size_t bytes) {
  check(shared_ == nullptr, "shared host memory is allocated twice");
  shared_ = std::make_unique<SharedArrays>(host_, host_.rank() == 0 ? bytes : 0);
  return {shared_->array(0), bytes, [](void*) {}};
}

void HostMemory::meet() {
  shared_->reach(&SharedArrays::Progress::started, ++meetings_);
  // The error message says "a training step", because a late rank may be computing gradients or writing a summary.
  shared_->wait_for_all(&SharedArrays::Progress::started, meetings_, "a training step");
}

void HostMemory::meet_after_update(const std::function<void(int rank)>& finish) {
  shared_->reach(&SharedArrays::Progress::started, ++meetings_);
  host_.bounded_wait().wait(
      "a training step", SharedArrays::wait_spins,
      [this] { return shared_->have_all_reached(&SharedArrays::Progress::started, meetings_); },
      [&] {
        finish_for_ended(finish);
        return shared_->missing(&SharedArrays::Progress::started, meetings_);
      });
}

void HostMemory::finish_for_ended(const std::function<void(int rank)>& finish) {
  const WaitObserver* const observer = host_.bounded_wait().limit().observer;
  const auto has_ended = [&](int rank) {
    return observer != nullptr && observer->has_ended(host_.bounded_wait().ranks()[static_cast<std::size_t>(rank)]);
  };
  for (int rank = 0; rank < host_.rank(); ++rank) {
    if (!has_ended(rank)) return;
  }
  for (const int rank : shared_->missing(&SharedArrays::Progress::started, meetings_)) {
    if (!has_ended(rank)) continue;
    finish(rank);
    shared_->reach_for(rank, &SharedArrays::Progress::started, meetings_);
  }
}

std::byte* HostMemory::on_rank(int rank, std::byte* own) const {
  return reinterpret_cast<std::byte*>(own_->array(rank)) + (own - reinterpret_cast<std::byte*>(own_->own()));
}

void HostMemory::means_of(std::span<const float> values, const TakeMeans& take) const {
  std::vector<const float*> parts;
  for (int rank = 0; rank < host_.size(); ++rank) parts.push_back(peers_copy(rank, values.data()));
  sum_blocks_in_order(parts, values.size(), factor_, take, order_);
}

void HostMemory::gather(std::span<float> values) const {
  for (int step = 1; step < host_.size(); ++step) {
    const int owner = (host_.rank() + step) % host_.size();
    const Slice shard = reduction_slice(values.size(), owner, host_.size());
    const float* const theirs = peers_copy(owner, values.data() + shard.begin);
    float* const here = values.data() + shard.begin;
    parallel_ranges(shard.end - shard.begin, elementwise_grain, [=](std::size_t begin, std::size_t end) {
      std::memcpy(here + begin, theirs + begin, (end - begin) * sizeof(float));
    });
  }
}

}  // namespace

std::unique_ptr<SharedHostMemory> make_shared_host_memory(const Members& host, const std::unique_ptr<SharedArrays>& own,
                                                          SumOrder order, float factor) {
  return std::make_unique<HostMemory>(host, own, order, factor);
}

}  // namespace carillon
