// Mpi: this process's place among the ranks, and the small collective calls that steer a run.
//
// One Mpi object per process, made first and destroyed last in `main`. MPI calls come from the main thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/version.h"
#include "src/comm/stall/wait_limit.h"

namespace carillon {

/// An error that every rank knows of: the rank that met it throws this, with its message, to report it.
class SharedError : public Error {
 public:
  using Error::Error;
};

/// Thrown on the other ranks when one throws SharedError: leave with its code, and say nothing.
class PeerFailed : public std::exception {
 public:
  explicit PeerFailed(ExitCode code) : code_(code) {}
  ExitCode code() const noexcept { return code_; }
  const char* what() const noexcept override { return "another rank failed"; }

 private:
  ExitCode code_;
};

class Mpi {
 public:
  /// Errors: usage when Slurm started several ranks that do not know of each other (srun without PMIx).
  Mpi(int* argc, char*** argv);
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  ///< among the ranks of this host
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  /// By rank: the host it is on. Hosts are numbered 0, 1, ... in the order of their lowest ranks.
  const std::vector<int>& hosts() const { return hosts_; }

  /// From now on the calls below, on this rank, wait no longer than that. Errors of those: failed.
  void limit_waits(WaitLimit limit) const;

  /// Every rank's text, by rank.
  std::vector<std::string> all_gather(std::string_view text) const;
  std::vector<std::string> local_all_gather(std::string_view text) const;
  /// Root's bytes to everyone.
  void broadcast(std::span<std::byte> bytes, int root) const;
  /// Element-wise sums over all ranks.
  void sum(std::span<std::int64_t> values) const;
  void barrier() const;

  /// Collective. Runs `part`, which makes no collective call, on every rank. When it throws on some, the lowest of them
  /// throws SharedError and all others PeerFailed: a cause that all ranks meet is told once, and nobody waits for a
  /// rank that has gone.
  void run_on_all(const std::function<void()>& part) const;

  /// Ends every rank with `code`; does not return.
  [[noreturn]] void abort(ExitCode code) const;

  /// For the sources of comm (src/comm/mpi/members.h).
  struct Ranks;
  const Ranks& ranks() const { return *ranks_; }

 private:
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::string host_;
  std::vector<int> hosts_;
  std::unique_ptr<Ranks> ranks_;
};

/// MPI's, and in a build with CUDA NCCL, as it was there.
std::vector<LibraryVersion> comm_libraries();

}  // namespace carillon
