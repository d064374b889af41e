// Tables of ranks and hosts for preflight.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// "0-3,8". `numbers`: ascending.
std::string range_text(std::span<const int> numbers);

/// The network interfaces that are up and have an IPv4 address, except the loopback: "eth0 10.77.0.1 (10 Gbit/s)". If
/// the system does not report the speed, the speed is omitted. Also lists InfiniBand devices: "mlx5_0 (InfiniBand)".
std::vector<std::string> network_interfaces();

/// Facts about a rank and its host.
struct RankFacts {
  std::string host, device, instructions;  ///< instructions: "avx512"; empty: a GPU
  int threads = 0;
  std::vector<int> cpus;
  double memory = 0.0;                  ///< free memory of the host, bytes, within the limits of the process
  double quota = 0.0;                   ///< CPU quota of the control group, in processors; 0: none
  double dev_shm = 0.0;                 ///< free bytes of the host's /dev/shm
  std::vector<std::string> interfaces;  ///< network interfaces of the host
  bool tells_of_host = false;           ///< the first rank of its host
};

/// All ranks' facts, by rank. Collective.
std::vector<RankFacts> gather_facts(const std::string& instructions, const CpuShare& cpu, const Mpi& mpi,
                                    const Device& device);

/// Tables as text. rank_table has a row for each rank, and host_table has a row for each host.
std::string rank_table(const std::vector<RankFacts>& ranks);
std::string host_table(const std::vector<RankFacts>& ranks);

/// A warning about the first host with too little room in /dev/shm for the messages of MPI and NCCL; empty: there is
/// none.
std::string small_dev_shm(const std::vector<RankFacts>& ranks);

/// A warning about two ranks of one host that share CPUs; empty: there are none.
std::string shared_cpus(const std::vector<RankFacts>& ranks);

}  // namespace carillon
