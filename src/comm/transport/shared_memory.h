// Memory that all members (ranks of one host) map. SharedSegment is zeroed memory with one part per member.
// SharedArrays has one array per member, and progress counters of each member.
//
// The memory is a memory file (memfd). Member 0 creates the file, and the other members open it through /proc. The file
// has no name in a directory, so nothing remains of it after the ranks have ended, even if they are killed. Only the
// memory of the host or container limits its size. MPI_Win_allocate_shared, in contrast, requires room in /dev/shm,
// because Open MPI creates its file there. The /dev/shm of a Docker container has 64 MiB by default, and the messages
// of Open MPI and NCCL also need room there.
//
// If a member cannot open the memory file, for example because it is in a different PID namespace from member 0, the
// members share a file in a directory with room. The blocks of this file are allocated when it is created. Otherwise a
// later write to a full file system would raise SIGBUS and end the rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/comm/mpi/members.h"

namespace carillon {

class SharedSegment {
 public:
  /// Places for the memory, in the order in which they are tried.
  struct Places {
    bool memory_file = true;
    std::vector<std::string> directories;  ///< directories for a file; they are on file systems that the members share
  };
  /// Returns these places: a memory file, /dev/shm, and the directories for temporary files: $TMPDIR, $SLURM_TMPDIR and
  /// /tmp.
  static Places default_places();

  /// Maps a part of `bytes` for this member; sizes may differ between members. Prints a warning if the memory is in a
  /// file outside of /dev/shm. Collective; `members` may end after the call. Errors: io (no place has room; the message
  /// names all places).
  SharedSegment(const Members& members, std::size_t bytes, const Places& places = default_places());
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// Returns the part of a member, aligned to a cache line.
  std::byte* part(int rank) const { return data_ + offsets_[static_cast<std::size_t>(rank)]; }
  /// For example "memory" or "a file in /tmp".
  const std::string& place() const { return place_; }

 private:
  std::vector<std::size_t> offsets_;  // [members + 1] offsets of the parts
  std::byte* data_ = nullptr;
  std::string place_ = "memory";
};

/// Maps a segment with `bytes` per rank of this host, frees it immediately, and returns its place. Collective. Errors:
/// as SharedSegment.
std::string try_shared_segment(const Mpi& mpi, std::size_t bytes);

/// One array per member, and the progress of the members in their common work.
class SharedArrays {
 public:
  /// Progress counters of a member, each in its own cache line. The code that uses SharedArrays defines what the
  /// counters count.
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> started{0};
    alignas(64) std::atomic<std::uint64_t> reduced{0};
    alignas(64) std::atomic<std::uint64_t> copied{0};
  };
  using Counter = std::atomic<std::uint64_t> Progress::*;
  static constexpr int wait_spins = 4096;  ///< number of times that a wait polls before it yields the core

  /// Allocates a zeroed array of `bytes` for this member; sizes may differ between members. `members` outlive this
  /// object. Collective. Errors: as SharedSegment.
  SharedArrays(const Members& members, std::size_t bytes);
  SharedArrays(const SharedArrays&) = delete;
  SharedArrays& operator=(const SharedArrays&) = delete;

  float* array(int rank) const { return arrays_[rank]; }
  float* own() const { return arrays_[members_.rank()]; }

  /// Sets a counter of this member with release semantics: a member that reads `value` then also sees all earlier
  /// writes.
  void reach(Counter counter, std::uint64_t value) { reach_for(members_.rank(), counter, value); }
  bool has_reached(Counter counter, int rank, std::uint64_t goal) const {
    return (progress_[rank]->*counter).load(std::memory_order_acquire) >= goal;
  }
  bool have_all_reached(Counter counter, std::uint64_t goal) const;
  /// Returns the members that have not reached `goal`.
  std::vector<int> missing(Counter counter, std::uint64_t goal) const;
  /// Does the same as `reach` for the counter of another member. Call it after the process of that member has ended.
  /// Only one member at a time may call it.
  void reach_for(int rank, Counter counter, std::uint64_t value) {
    (progress_[rank]->*counter).store(value, std::memory_order_release);
  }
  /// Waits until the counter of member `rank` has reached `goal`. Errors: lost_rank (the limit of the members passes
  /// first).
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
  std::vector<Progress*> progress_;  // one element per rank
  std::vector<float*> arrays_;       // one element per rank
};

}  // namespace carillon
