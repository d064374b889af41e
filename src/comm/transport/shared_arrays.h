// SharedArrays: one array per member that all members (ranks of one host) map, and progress counters of each member.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/comm/mpi/members.h"
#include "src/comm/transport/shared_segment.h"

namespace carillon {

class SharedArrays {
 public:
  /// Progress counters of a member, each in its own cache line. The user of the class defines what they count.
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> started{0};
    alignas(64) std::atomic<std::uint64_t> reduced{0};
    alignas(64) std::atomic<std::uint64_t> copied{0};
  };
  using Counter = std::atomic<std::uint64_t> Progress::*;
  static constexpr int wait_spins = 4096;  ///< polls of a wait before it yields the core

  /// Allocates a zeroed array of `bytes` for this member; sizes may differ between members. `members` outlive this.
  /// Collective. Errors: as SharedSegment.
  SharedArrays(const Members& members, std::size_t bytes);
  SharedArrays(const SharedArrays&) = delete;
  SharedArrays& operator=(const SharedArrays&) = delete;

  float* array(int rank) const { return arrays_[rank]; }
  float* own() const { return arrays_[members_.rank()]; }

  /// Sets a counter of this member with release semantics: a member that reads `value` also sees all earlier writes.
  void reach(Counter counter, std::uint64_t value) { reach_for(members_.rank(), counter, value); }
  bool has_reached(Counter counter, int rank, std::uint64_t goal) const {
    return (progress_[rank]->*counter).load(std::memory_order_acquire) >= goal;
  }
  bool have_all_reached(Counter counter, std::uint64_t goal) const;
  /// The members that have not reached `goal`.
  std::vector<int> missing(Counter counter, std::uint64_t goal) const;
  /// As `reach`, on behalf of a member. Call it after the process of the member has ended. Only one member at a time
  /// may call it.
  void reach_for(int rank, Counter counter, std::uint64_t value) {
    (progress_[rank]->*counter).store(value, std::memory_order_release);
  }
  /// Errors: lost_rank if the limit of the members passes first.
  void wait(Counter counter, int rank, std::uint64_t goal, std::string_view operation) const {
    wait_for(rank, rank + 1, counter, goal, operation);
  }
  void wait_for_all(Counter counter, std::uint64_t goal, std::string_view operation) const {
    wait_for(0, members_.size(), counter, goal, operation);
  }

 private:
  /// Waits for the members [first, last).
  void wait_for(int first, int last, Counter counter, std::uint64_t goal, std::string_view operation) const;

  const Members& members_;
  SharedSegment segment_;
  std::vector<Progress*> progress_;  // by rank
  std::vector<float*> arrays_;       // by rank
};

}  // namespace carillon
