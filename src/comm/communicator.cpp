#include "carillon/comm/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "carillon/core/parallel.h"
#include "src/comm/communicators.h"

namespace carillon {
namespace {

CARILLON_SIMD void mean_of_range(std::span<const float* const> parts, std::size_t begin, std::size_t end, float factor,
                                 float* out) {
  constexpr std::size_t block = 256;  // sums stay in registers and level 1 cache
  float sums[block];
  for (std::size_t at = begin; at < end; at += block) {
    const std::size_t count = std::min(block, end - at);
    for (std::size_t i = 0; i < count; ++i) sums[i] = parts[0][at + i];
    for (std::size_t part = 1; part < parts.size(); ++part) {
      for (std::size_t i = 0; i < count; ++i) sums[i] += parts[part][at + i];
    }
    for (std::size_t i = 0; i < count; ++i) out[at + i] = sums[i] * factor;
  }
}

/// Ranks on CPUs and ranks on GPUs would wait for each other in different collective calls.
void refuse_mixed_kinds(const Mpi& mpi, Device& device) {
  const std::vector<std::string> kinds = mpi.all_gather(device.kind() == DeviceKind::cuda ? "a GPU" : "a CPU");
  mpi.together([&] {
    for (std::size_t rank = 1; rank < kinds.size(); ++rank) {
      if (kinds[rank] == kinds[0]) continue;
      fail(ExitCode::no_device, "rank 0 computes on {}, rank {} on {}: choose --device cpu, or hosts with GPUs only",
           kinds[0], rank, kinds[rank]);
    }
  });
}

}  // namespace

Slice reduction_slice(std::size_t count, int rank, int size) {
  constexpr std::size_t unit = 16;
  const std::size_t units = (count + unit - 1) / unit;
  const auto edge = [&](int part) { return std::min(units * part / size * unit, count); };
  return {edge(rank), edge(rank + 1)};
}

void mean_in_rank_order(std::span<const float* const> parts, std::size_t count, float factor, float* out) {
  parallel_ranges(count, 16384,
                  [&](std::size_t begin, std::size_t end) { mean_of_range(parts, begin, end, factor, out); });
}

std::unique_ptr<Communicator> make_host_communicator(const Mpi& mpi, Device& device) {
  if (mpi.size() == 1) return make_self_communicator(device);
  if (mpi.local_size() == mpi.size()) return make_shared_memory_communicator(mpi);
  return make_message_communicator(device);
}

void progress_mpi() {
  int there = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

std::unique_ptr<Communicator> make_communicator(const Mpi& mpi, Device& device, std::string_view choice) {
  refuse_mixed_kinds(mpi, device);
  if (device.kind() == DeviceKind::cuda) {
    if constexpr (has_cuda) return make_cuda_communicator(mpi, device, choice);
  }
  mpi.together([&] {
    if (choice == "nccl") fail(ExitCode::no_device, "--comm nccl: NCCL averages between GPUs, this tower is on a CPU");
  });
  return make_host_communicator(mpi, device);
}

}  // namespace carillon
