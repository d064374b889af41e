// Averages between the ranks of one host, which map each other's gradients.
//
// Rank r sums slice r of the bucket over all ranks, in place in its own array; then everyone copies the other slices
// from their owners. Three counters per rank, in the same shared memory, say how far it is:
//   started: buckets whose gradients are complete     reduced: buckets whose own slice holds the mean
//   copied: steps in which it has read all it wanted of the others
// A rank writes new gradients only once all have copied the last ones (acquire).
#include <sched.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "carillon/core/parallel.h"
#include "src/comm/communicators.h"

namespace carillon {
namespace {

struct alignas(64) Progress {
  std::atomic<std::uint64_t> started{0};
  alignas(64) std::atomic<std::uint64_t> reduced{0};
  alignas(64) std::atomic<std::uint64_t> copied{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the counters are shared between processes");

void wait_until_at_least(const std::atomic<std::uint64_t>& counter, std::uint64_t goal) {
  constexpr int spin_count = 4096;
  for (int spins = 0; counter.load(std::memory_order_acquire) < goal;) {
    if (spins < spin_count) {
      ++spins;
      spin_pause();
    } else {
      sched_yield();  // ranks may be more than cores
    }
  }
}

class SharedMemoryCommunicator final : public Communicator {
 public:
  explicit SharedMemoryCommunicator(const Mpi& mpi) : mpi_(mpi) {}
  ~SharedMemoryCommunicator() override {
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  }

  std::string_view name() const override { return "mpi shared memory"; }
  int rank() const override { return mpi_.rank(); }
  int size() const override { return mpi_.size(); }

  Buffer allocate(std::size_t bytes) override {
    check(window_ == MPI_WIN_NULL, "gradient memory was allocated twice");
    const std::size_t segment = alignof(Progress) + sizeof(Progress) + bytes;  // Progress first, then the array
    void* mine = nullptr;
    check_mpi(
        MPI_Win_allocate_shared(static_cast<MPI_Aint>(segment), 1, MPI_INFO_NULL, mpi_.local_comm(), &mine, &window_),
        "MPI_Win_allocate_shared");
    std::memset(mine, 0, segment);
    new (aligned(mine)) Progress;
    for (int rank = 0; rank < size(); ++rank) {
      MPI_Aint part_bytes = 0;
      int unit = 0;
      void* part = nullptr;
      check_mpi(MPI_Win_shared_query(window_, rank, &part_bytes, &unit, &part), "MPI_Win_shared_query");
      progress_.push_back(static_cast<Progress*>(aligned(part)));
      arrays_.push_back(reinterpret_cast<float*>(progress_.back() + 1));
    }
    mpi_.barrier();
    return {arrays_[rank()], bytes, [](void*) {}};
  }

  void acquire(Stream& /*stream*/) override {
    for (const Progress* peer : progress_) wait_until_at_least(peer->copied, step_);
  }

  void start_mean(std::span<float> bucket, Stream& /*stream*/) override {
    buckets_.push_back(bucket);
    progress_[rank()]->started.store(started_ + buckets_.size(), std::memory_order_release);
  }

  void finish(Stream& /*stream*/) override {
    for (const std::span<float> bucket : buckets_) reduce_own_slice(bucket, ++started_);
    std::uint64_t number = started_ - buckets_.size();
    for (const std::span<float> bucket : buckets_) copy_other_slices(bucket, ++number);
    buckets_.clear();
    progress_[rank()]->copied.store(++step_, std::memory_order_release);
  }

  void broadcast(std::span<float> values, int root) override { mpi_.broadcast(std::as_writable_bytes(values), root); }

 private:
  /// The first cache line in a rank's part of the window, which MPI aligns to 8 bytes. Every process maps the window at
  /// a page, so all of them find the same line.
  static void* aligned(void* part) {
    const auto address = reinterpret_cast<std::uintptr_t>(part);
    return static_cast<std::byte*>(part) + (alignof(Progress) - address % alignof(Progress)) % alignof(Progress);
  }

  std::size_t offset_of(std::span<float> bucket) const {
    return static_cast<std::size_t>(bucket.data() - arrays_[rank()]);
  }

  void reduce_own_slice(std::span<float> bucket, std::uint64_t number) {
    const Slice slice = reduction_slice(bucket.size(), rank(), size());
    std::vector<const float*> parts;
    for (int peer = 0; peer < size(); ++peer) {
      wait_until_at_least(progress_[peer]->started, number);
      parts.push_back(arrays_[peer] + offset_of(bucket) + slice.begin);
    }
    mean_in_rank_order(parts, slice.end - slice.begin, 1.0f / static_cast<float>(size()), bucket.data() + slice.begin);
    progress_[rank()]->reduced.store(number, std::memory_order_release);
  }

  void copy_other_slices(std::span<float> bucket, std::uint64_t number) {
    for (int step = 1; step < size(); ++step) {
      const int peer = (rank() + step) % size();
      wait_until_at_least(progress_[peer]->reduced, number);
      const Slice slice = reduction_slice(bucket.size(), peer, size());
      std::memcpy(bucket.data() + slice.begin, arrays_[peer] + offset_of(bucket) + slice.begin,
                  (slice.end - slice.begin) * sizeof(float));
    }
  }

  const Mpi& mpi_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<Progress*> progress_;        // by rank
  std::vector<float*> arrays_;             // by rank: the memory that `allocate` gave there
  std::vector<std::span<float>> buckets_;  // of this step, in order
  std::uint64_t started_ = 0, step_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_shared_memory_communicator(const Mpi& mpi) {
  return std::make_unique<SharedMemoryCommunicator>(mpi);
}

}  // namespace carillon
