// SharedSegment: zeroed memory that all members (ranks of one host) map. It has one part per member.
//
// The memory is that of a memory file (memfd). Member 0 creates it, and the other members open it through /proc. It has
// no name in a directory, so nothing of it remains, however the ranks end. Only the memory of the host or container
// limits it. MPI_Win_allocate_shared, in contrast, requires room in /dev/shm, because Open MPI creates its file there.
// A Docker container has 64 MiB there by default, and Open MPI's and NCCL's messages need them, too.
//
// If a member cannot open the memory file, for example because it has another PID namespace than member 0, the members
// share a file in a directory with room. Its blocks are allocated at once: if the file system were full at a later
// write, SIGBUS would end the rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/comm/mpi/members.h"

namespace carillon {

class SharedSegment {
 public:
  /// Places for the memory, in the order in which they are tried.
  struct Places {
    bool memory_file = true;
    std::vector<std::string> directories;  ///< for a file; on file systems that the members share
  };
  /// A memory file, /dev/shm, and the directories for temporary files: $TMPDIR, $SLURM_TMPDIR and /tmp.
  static Places default_places();

  /// Maps a part of `bytes` for this member; sizes may differ between members. Prints a warning if the memory is in a
  /// file outside of /dev/shm. Collective; `members` may end after the call. Errors: io (no place has room; names all).
  SharedSegment(const Members& members, std::size_t bytes, const Places& places = default_places());
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// The part of a member, aligned to a cache line.
  std::byte* part(int rank) const { return data_ + offsets_[static_cast<std::size_t>(rank)]; }
  /// "memory" or "a file in /tmp".
  const std::string& place() const { return place_; }

 private:
  std::vector<std::size_t> offsets_;  // [members + 1] of the parts
  std::byte* data_ = nullptr;
  std::string place_ = "memory";
};

/// The place of a segment with `bytes` per rank of this host. The segment is freed at once. Collective. Errors: as
/// SharedSegment.
std::string try_shared_segment(const Mpi& mpi, std::size_t bytes);

}  // namespace carillon
