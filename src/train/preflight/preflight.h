// Preflight: what a run would find on its hosts, in a table, and a short averaging, before hours are spent on it.
#pragma once

#include <cstdint>
#include <string>

#include "src/comm/allreduce/communicator.h"
#include "src/comm/mpi/cpu_share.h"

namespace carillon {

/// What of a run is looked at.
struct PreflightSubject {
  std::string version;       ///< lines of program and libraries, the same on all ranks
  std::string instructions;  ///< this rank's: "avx512"; empty on a GPU
  std::string network;       ///< its name
  std::string train_dir;
  bool shares_gpus = false;      ///< --share-gpus: several ranks per GPU are intended
  std::size_t gradients = 0;     ///< float32 numbers that a step averages
  std::size_t bucket_bytes = 0;  ///< of gradients that are averaged at a time
  std::int64_t divisor = 1;      ///< of the sums over the towers (Averaging::divisor)
};

/// Prints on rank 0: a row for each rank (host, device, threads and the CPUs it is bound to) and for each host (memory,
/// network interfaces), the train directory's free space and whether its locks hold, on this host and seen from others,
/// and latency and bandwidth of averaging, whose means it checks. Leaves nothing behind that was not there. Collective.
/// Errors: usage (towers that share a GPU, unless shares_gpus; a train directory in use), io (a train
/// directory that cannot be written, a standard output that is full), failed (wrong means).
void preflight(const PreflightSubject& subject, const CpuShare& cpu, const Mpi& mpi, Device& device,
               Communicator& communicator);

}  // namespace carillon
