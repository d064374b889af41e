// Placements of ranks on simulated hosts, the values that ranks contribute to a mean, and the expected mean.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "src/comm/transport/group.h"
#include "src/core/bf16.h"
#include "tests/support/mpi_world.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {

/// Returns the number of the simulated host of each rank. `placement`: one of the names in this function.
inline std::vector<int> hosts_of(const std::string& placement) {
  const int size = mpi_world().size();
  std::vector<int> hosts;
  for (int rank = 0; rank < size; ++rank) {
    if (placement == "one host") hosts.push_back(0);
    if (placement == "a host a rank") hosts.push_back(rank);
    if (placement == "two hosts") hosts.push_back(rank < (size + 1) / 2 ? 0 : 1);
    if (placement == "one rank elsewhere") hosts.push_back(rank > 0 && rank == size - 1 ? 1 : 0);
    if (placement == "ranks dealt out") hosts.push_back(rank % 2);
  }
  return hosts;
}

/// Returns the values that rank `rank` contributes in step `step`.
inline std::vector<float> contribution(int rank, int step, std::size_t count) {
  return random_values(count, static_cast<std::uint64_t>(1000 * step + rank));
}

/// Computes the mean with the documented bits: adds the values of each host's ranks, then adds the sums of the hosts,
/// and multiplies the total by the factor 1 / (number of ranks).
inline std::vector<float> expected_mean(const std::vector<int>& hosts, int step, std::size_t count) {
  std::vector<std::vector<float>> sums;
  for (int host = 0; host <= *std::max_element(hosts.begin(), hosts.end()); ++host) {
    std::vector<float> sum;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != host) continue;
      const std::vector<float> part = contribution(static_cast<int>(rank), step, count);
      if (sum.empty()) {
        sum = part;
      } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
      }
    }
    sums.push_back(sum);
  }
  for (std::size_t host = 1; host < sums.size(); ++host) {
    for (std::size_t i = 0; i < count; ++i) sums[0][i] += sums[host][i];
  }
  for (float& value : sums[0]) value *= 1.0f / static_cast<float>(hosts.size());
  return sums[0];
}

inline bool equal_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

inline float rounded(float value) { return to_float(to_bf16(value)); }

/// Returns the mean of a bucket of `count` elements if hosts send bfloat16. For each element, one host computes the
/// sum: it adds the exact sum of its own ranks and the rounded sums of the other hosts, in the order of the hosts. All
/// ranks get the product of the sum and the factor, rounded to bfloat16.
inline std::vector<float> expected_rounded_mean(const std::vector<int>& hosts, int step, std::size_t count) {
  const int host_count = *std::max_element(hosts.begin(), hosts.end()) + 1;
  if (host_count == 1) return expected_mean(hosts, step, count);
  std::ptrdiff_t slices = std::ssize(hosts);
  std::vector<std::vector<float>> sums;
  for (int host = 0; host < host_count; ++host) {
    slices = std::min(slices, std::count(hosts.begin(), hosts.end(), host));
    std::vector<float> sum;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != host) continue;
      const std::vector<float> part = contribution(static_cast<int>(rank), step, count);
      if (sum.empty()) sum.assign(count, -0.0f);
      for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
    }
    sums.push_back(sum);
  }
  std::vector<float> means(count);
  for (int owner = 0; owner < slices; ++owner) {
    const Slice slice = reduction_slice(count, owner, static_cast<int>(slices));
    for (int host = 0; host < host_count; ++host) {
      const Slice part = reduction_slice(slice.end - slice.begin, host, host_count);
      for (std::size_t i = slice.begin + part.begin; i < slice.begin + part.end; ++i) {
        float sum = -0.0f;
        for (int from = 0; from < host_count; ++from) sum += from == host ? sums[from][i] : rounded(sums[from][i]);
        means[i] = rounded(sum * (1.0f / static_cast<float>(hosts.size())));
      }
    }
  }
  return means;
}

}  // namespace carillon::testing
