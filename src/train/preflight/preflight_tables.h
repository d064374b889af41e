// What preflight tells of ranks and hosts.
#pragma once

#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// What a rank tells of itself.
struct RankFacts {
  std::string host, device, instructions;  ///< instructions: "avx512"; empty on a GPU
  int threads = 0;
  std::vector<int> cpus;
  double memory = 0.0;                  ///< of the host, free, bytes
  std::vector<std::string> interfaces;  ///< of the host
  bool tells_of_host = false;           ///< as a host's first rank does
};

/// All ranks' facts, by rank. Collective.
std::vector<RankFacts> gather_facts(const std::string& instructions, const CpuShare& cpu, const Mpi& mpi,
                                    const Device& device);

/// A row for each rank, and one for each host, as lines.
std::string rank_table(const std::vector<RankFacts>& ranks);
std::string host_table(const std::vector<RankFacts>& ranks);

/// A line on two ranks of one host that compute on the same CPUs; empty where there are none.
std::string shared_cpus(const std::vector<RankFacts>& ranks);

}  // namespace carillon
