#include "src/comm/allreduce/communicator.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "src/comm/allreduce/communicators.h"
#include "src/core/has_cuda.h"

namespace carillon {
namespace {

/// Refuses a mix of CPU and GPU ranks: they would wait for each other in different collective calls.
void require_one_kind(const Mpi& mpi, Device& device) {
  const std::vector<std::string> kinds = mpi.all_gather(device.kind() == DeviceKind::cuda ? "a GPU" : "a CPU");
  mpi.run_on_all([&] {
    for (std::size_t rank = 1; rank < kinds.size(); ++rank) {
      if (kinds[rank] == kinds[0]) continue;
      fail(ExitCode::no_device, "rank 0 computes on {}, rank {} on {}: choose --device cpu, or hosts with GPUs only",
           kinds[0], rank, kinds[rank]);
    }
  });
}

}  // namespace

void Communicator::all_gather(std::span<float> /*values*/, Stream& /*stream*/) {
  fail(ExitCode::failed, "the communicator '{}' has no all_gather", name());
}

bool sums_as_one_tree(std::span<const int> hosts) {
  if (!std::ranges::is_sorted(hosts)) return false;
  const auto on_host = [&](int host) { return static_cast<std::size_t>(std::ranges::count(hosts, host)); };
  const std::size_t of_first = on_host(0);
  for (int host = 0; host < hosts.back(); ++host) {
    if (on_host(host) != of_first) return false;
  }
  return hosts.back() == 0 || (std::has_single_bit(of_first) && on_host(hosts.back()) <= of_first);
}

std::unique_ptr<Communicator> make_communicator(const Mpi& mpi, Device& device, std::string_view choice,
                                                WaitLimit limit, Averaging averaging) {
  require_one_kind(mpi, device);
  if (device.kind() == DeviceKind::cuda) {
    if constexpr (has_cuda) return make_cuda_communicator(mpi, device, choice, limit, averaging);
  }
  mpi.run_on_all([&] {
    if (choice == "nccl") fail(ExitCode::no_device, "--comm nccl requires GPUs; this rank uses a CPU");
  });
  if (mpi.size() == 1) return make_self_communicator(device);
  return make_host_communicator(mpi, mpi.hosts(), limit, averaging);
}

std::string shared_gpus(const Mpi& mpi, Device& device) {
  if constexpr (has_cuda) {
    if (device.kind() == DeviceKind::cuda) return shared_cuda_gpus(mpi, device);
  }
  return {};
}

}  // namespace carillon
