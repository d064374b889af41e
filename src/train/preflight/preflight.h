// Preflight: checks the hosts before a long run. The preflight prints tables of ranks and hosts and measures the
// averaging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "src/checkpoint/directory_lock.h"
#include "src/comm/allreduce/communicator.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// The facts about a run that preflight needs.
struct PreflightSubject {
  std::string version;       ///< lines that state the versions of program and libraries, equal on all ranks
  std::string instructions;  ///< instruction set of this rank, for example "avx512"; empty: a GPU
  std::string network;       ///< name of the network
  std::string train_dir;
  bool shares_gpus = false;      ///< --share-gpus is set: several ranks per GPU are intended
  std::size_t gradients = 0;     ///< number of float32 numbers that a step averages
  std::size_t shared_bytes = 0;  ///< bytes per rank in the shared memory of a host's ranks
  std::size_t bucket_bytes = 0;  ///< bytes of gradients in one message of the averaging
  std::int64_t divisor = 1;      ///< a mean is the sum over the ranks, divided by this number (Averaging::divisor)
};

/// Prints on rank 0:
/// - a row for each rank: host, device, threads, and the CPUs that the rank is bound to;
/// - a row for each host: memory, room in /dev/shm, network interfaces;
/// - the free space of the train directory, and whether its locks work on this host and across hosts;
/// - the memory that the ranks of a host share;
/// - latency and bandwidth of averaging. The means are checked.
/// Removes everything that it writes. Collective. Errors: usage (ranks share a GPU and shares_gpus is false; the train
/// directory is in use), io (the train directory cannot be written; standard output is full; there is no room for
/// shared memory), failed (a mean is wrong).
void preflight(const PreflightSubject& subject, const CpuShare& cpu, const Mpi& mpi, Device& device,
               Communicator& communicator);

/// Measures latency and bandwidth of averaging the gradients of `subject`. Returns one or two lines, equal on all
/// ranks. Collective. Errors: failed (a mean is wrong).
std::string try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator);

/// Describes whether a lock of the first rank works. `seen`: the state that the first rank and one rank of each other
/// host see; `hosts`: the names of their hosts.
std::string lock_text(const std::vector<LockState>& seen, const std::vector<std::string>& hosts);

// The tables of ranks and hosts (host_tables.cpp).

/// Returns ascending numbers as text: "0-3,8".
std::string range_text(std::span<const int> numbers);

/// Returns the network interfaces that are up and have an IPv4 address, without the loopback: "eth0 10.77.0.1 (10
/// Gbit/s)". If the system does not report the speed, the speed is omitted. Also lists InfiniBand devices: "mlx5_0
/// (InfiniBand)".
std::vector<std::string> network_interfaces();

/// Facts about a rank and its host.
struct RankFacts {
  std::string host, device, instructions;  ///< instruction set, for example "avx512"; empty: a GPU
  int threads = 0;
  std::vector<int> cpus;
  double memory = 0.0;                  ///< free memory of the host in bytes, within the limits of the process
  double quota = 0.0;                   ///< CPU quota of the control group, in processors; 0: no quota
  double dev_shm = 0.0;                 ///< free bytes of the host's /dev/shm
  std::vector<std::string> interfaces;  ///< network interfaces of the host
  bool tells_of_host = false;  ///< true for the first rank of each host, which reports the facts about the host
};

/// Gathers the facts of all ranks, by rank. Collective.
std::vector<RankFacts> gather_facts(const std::string& instructions, const CpuShare& cpu, const Mpi& mpi,
                                    const Device& device);

/// Return tables as text. rank_table has a row for each rank, and host_table has a row for each host.
std::string rank_table(const std::vector<RankFacts>& ranks);
std::string host_table(const std::vector<RankFacts>& ranks);

/// Returns a warning about the first host with too little room in /dev/shm for the messages of MPI and NCCL. Returns an
/// empty text if there is no such host.
std::string small_dev_shm(const std::vector<RankFacts>& ranks);

/// Returns a warning about two ranks of one host that share CPUs, or an empty text if there are no such ranks.
std::string shared_cpus(const std::vector<RankFacts>& ranks);

}  // namespace carillon
