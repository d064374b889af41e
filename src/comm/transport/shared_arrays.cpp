#include "src/comm/transport/shared_arrays.h"

#include <cstring>
#include <new>

#include "src/comm/transport/point_to_point.h"

namespace carillon {
namespace {

using Progress = SharedArrays::Progress;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the counters are shared between processes");

/// The first cache line in a rank's part of the window. MPI aligns the part to 8 bytes only. Every process maps the
/// window at a page boundary, so all processes find the same line.
void* aligned(void* part) {
  const auto address = reinterpret_cast<std::uintptr_t>(part);
  return static_cast<std::byte*>(part) + (alignof(Progress) - address % alignof(Progress)) % alignof(Progress);
}

}  // namespace

SharedArrays::SharedArrays(const Members& members, std::size_t bytes) : members_(members) {
  meet(members, "setting up shared memory");  // so that all ranks reach the next call, which has no limit
  const std::size_t segment = alignof(Progress) + sizeof(Progress) + bytes;  // Progress first, then the array
  void* mine = nullptr;
  check_mpi(MPI_Win_allocate_shared(static_cast<MPI_Aint>(segment), 1, MPI_INFO_NULL, members.comm(), &mine, &window_),
            "MPI_Win_allocate_shared");
  std::memset(mine, 0, segment);
  new (aligned(mine)) Progress;
  for (int rank = 0; rank < members.size(); ++rank) {
    MPI_Aint part_bytes = 0;
    int unit = 0;
    void* part = nullptr;
    check_mpi(MPI_Win_shared_query(window_, rank, &part_bytes, &unit, &part), "MPI_Win_shared_query");
    progress_.push_back(static_cast<Progress*>(aligned(part)));
    arrays_.push_back(reinterpret_cast<float*>(progress_.back() + 1));
  }
  meet(members, "setting up shared memory");
}

SharedArrays::~SharedArrays() {
  if (std::uncaught_exceptions() > exceptions_before_) return;  // freeing waits for peers, which may be gone
  MPI_Win_free(&window_);
}

bool SharedArrays::have_all_reached(Counter counter, std::uint64_t goal) const {
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (!has_reached(counter, rank, goal)) return false;
  }
  return true;
}

void SharedArrays::wait_for(int first, int last, Counter counter, std::uint64_t goal,
                            std::string_view operation) const {
  constexpr int spins = 4096;
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int rank = first; rank < last; ++rank) {
      if (!has_reached(counter, rank, goal)) ranks.push_back(rank);
    }
    return ranks;
  };
  for (int rank = first; rank < last; ++rank) {
    members_.bounded_wait().wait(
        operation, spins, [&] { return has_reached(counter, rank, goal); }, missing);
  }
}

}  // namespace carillon
