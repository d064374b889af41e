// SharedSegment: zeroed memory that all members (ranks of one host) map. It has one part per member.
//
// The memory is a memory file (memfd). Member 0 creates the file, and the other members open it through /proc. The file
// has no name in a directory, so nothing remains of it, however the ranks end. Only the memory of the host or container
// limits its size. MPI_Win_allocate_shared, in contrast, requires room in /dev/shm, because Open MPI creates its file
// there. The /dev/shm of a Docker container has 64 MiB by default, and the messages of Open MPI and NCCL need room
// there, too.
//
// If a member cannot open the memory file, for example because it has another PID namespace than member 0, the members
// share a file in a directory with room. The blocks of this file are allocated when it is created. Otherwise a later
// write to a full file system would raise SIGBUS and end the rank.
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

/// Maps a segment with `bytes` per rank of this host, frees it at once, and returns its place. Collective. Errors: as
/// SharedSegment.
std::string try_shared_segment(const Mpi& mpi, std::size_t bytes);

}  // namespace carillon
