#include "carillon/comm/communicator.h"

#include <algorithm>
#include <cstdlib>

#include "carillon/core/parallel.h"
#include "communicators.h"

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

std::unique_ptr<Communicator> make_communicator(const Mpi& mpi, Device& device, std::string_view choice) {
  if (device.kind() == DeviceKind::cuda) {
    if constexpr (has_cuda) return make_cuda_communicator(mpi, device, choice);
  }
  mpi.together([&] {
    if (choice == "nccl") fail(ExitCode::no_device, "--comm nccl: NCCL averages between GPUs, this tower is on a CPU");
  });
  return make_host_communicator(mpi, device);
}

}  // namespace carillon
