// Preflight: checks the hosts before a long run. It prints tables of ranks and hosts and measures the averaging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/checkpoint/directory_lock.h"
#include "src/comm/allreduce/communicator.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// The facts about a run that preflight needs.
struct PreflightSubject {
  std::string version;       ///< lines of program and libraries, equal on all ranks
  std::string instructions;  ///< instruction set of this rank: "avx512"; empty: a GPU
  std::string network;       ///< name
  std::string train_dir;
  bool shares_gpus = false;      ///< --share-gpus: several ranks per GPU are intended
  std::size_t gradients = 0;     ///< float32 numbers that a step averages
  std::size_t shared_bytes = 0;  ///< bytes per rank in the memory that the ranks of a host share
  std::size_t bucket_bytes = 0;  ///< gradients averaged at a time
  std::int64_t divisor = 1;      ///< divides the sums over the ranks (Averaging::divisor)
};

/// Prints on rank 0:
/// - a row for each rank: host, device, threads, and the CPUs that the rank is bound to;
/// - a row for each host: memory, room in /dev/shm, network interfaces;
/// - the free space of the train directory, and whether its locks work on this host and across hosts;
/// - the memory that the ranks of a host share;
/// - latency and bandwidth of averaging. The means are checked.
/// Removes everything that it writes. Collective. Errors: usage (ranks share a GPU, unless shares_gpus; the train
/// directory is in use), io (the train directory cannot be written; standard output is full; no room for shared
/// memory), failed (wrong means).
void preflight(const PreflightSubject& subject, const CpuShare& cpu, const Mpi& mpi, Device& device,
               Communicator& communicator);

/// Latency and bandwidth of averaging the subject's gradients: one or two lines, equal on all ranks. Collective.
/// Errors: failed (wrong means).
std::string try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator);

/// Describes whether a lock of the first rank works. `seen`: the state that the first rank and one rank of each other
/// host see; `hosts`: the names of their hosts.
std::string lock_text(const std::vector<LockState>& seen, const std::vector<std::string>& hosts);

}  // namespace carillon
