// Mpi: the rank of this process, and collective calls for small control messages (options, errors, counts). WaitLimit:
// how long a rank waits for other ranks before the run fails.
//
// A process has one Mpi object. `main` creates it first and destroys it last. Only the main thread calls MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"

namespace carillon {

/// Observes the waits of a rank on its main thread. The observer may end a wait by throwing.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// Called about ten times a second while the rank waits for `ranks` (at least one) in `operation`. `seconds`: time
  /// that the rank has waited so far.
  virtual void still_waiting(std::string_view operation, std::span<const int> ranks, double seconds) = 0;
  /// Called after each wait, even if `still_waiting` was not called. `seconds`: duration of the wait.
  virtual void waited(double seconds) = 0;
  /// Returns true if the process of this rank has ended without reporting an error (it was killed or crashed). Returns
  /// false if this is unknown.
  virtual bool has_ended(int /*rank*/) const { return false; }
};

/// The limit applies to every wait for other ranks, except waits inside NCCL, which have no limit. A longer wait throws
/// Error(lost_rank), which names the missing ranks: "waited 30 s for rank 2 in averaging". Afterwards, shared memory
/// and messages are unusable, so the run must end.
struct WaitLimit {
  double seconds = std::numeric_limits<double>::infinity();
  WaitObserver* observer = nullptr;  ///< outlives the waits; may be null
};

/// An error that all ranks know. The rank that found the error throws SharedError and prints the message.
class SharedError : public Error {
 public:
  using Error::Error;
};

/// If one rank throws SharedError, the other ranks throw this error. They exit with the same code and print nothing.
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
  /// Errors: usage (the launcher started several processes, but MPI does not connect them, as under srun without PMIx).
  Mpi(int* argc, char*** argv);
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  ///< number of this rank among the ranks of this host
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  /// [size()] The host number of each rank. Hosts are numbered 0, 1, ... in the order of their lowest ranks.
  const std::vector<int>& hosts() const { return hosts_; }

  /// Limits the waits of the functions below on this rank. The functions throw lost_rank if a wait exceeds the limit.
  void limit_waits(WaitLimit limit) const;

  /// Gathers the text of each rank, by rank [size()], or of each rank of this host, by local rank [local_size()]. The
  /// texts may have different lengths.
  std::vector<std::string> all_gather(std::string_view text) const;
  std::vector<std::string> local_all_gather(std::string_view text) const;
  /// Copies the bytes of `root` to all ranks. `bytes` must have the same length on all ranks.
  void broadcast(std::span<std::byte> bytes, int root) const;
  /// Sends `own` to rank `to` and returns the bytes that rank `from` sent. Each rank must be the `to` of exactly one
  /// rank, and the `from` of exactly one rank. Collective.
  std::vector<std::byte> sendrecv(std::span<const std::byte> own, int to, int from) const;
  /// Replaces each value by its sum over all ranks. `values` must have the same length on all ranks.
  void sum(std::span<std::int64_t> values) const;
  void barrier() const;

  /// Runs `part` on every rank; `part` must not make collective calls. If `part` throws on some ranks, the lowest of
  /// these ranks throws SharedError and all other ranks throw PeerFailed. So if all ranks find the same error, it is
  /// printed only once, and no rank waits for a rank that has exited. Collective.
  void run_on_all(const std::function<void()>& part) const;

  /// Terminates all ranks with `code` (MPI_Abort).
  [[noreturn]] void abort(ExitCode code) const;

  /// Only code in src/comm uses this (members.h).
  struct Ranks;
  const Ranks& ranks() const { return *ranks_; }

 private:
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::string host_;
  std::vector<int> hosts_;
  std::unique_ptr<Ranks> ranks_;
};

/// Returns the name and version of MPI, "Open MPI 4.1.4". In builds with CUDA, also returns the name and version of
/// NCCL.
std::vector<std::string> comm_libraries();

}  // namespace carillon
