// The communicators to choose from; one file each.
#pragma once

#include <span>
#include <string>

#include "src/comm/allreduce/communicator.h"

namespace carillon {

/// One tower: every mean is the value itself.
std::unique_ptr<Communicator> make_self_communicator(Device& device);

/// Ranks whose gradients lie in the host's memory: through shared memory within a host, by messages between hosts.
/// `hosts`: by rank, the host that it is on (as Mpi::hosts; a test may say otherwise). Collective.
std::unique_ptr<Communicator> make_host_communicator(const Mpi& mpi, std::span<const int> hosts, WaitLimit limit = {},
                                                     Averaging averaging = {});

/// For towers on GPUs, by make_communicator's `choice`; cuda_communicators.cpp, in builds with CUDA. Collective.
std::unique_ptr<Communicator> make_cuda_communicator(const Mpi& mpi, Device& device, std::string_view choice,
                                                     WaitLimit limit);

/// NCCL as it was at the build; nccl_communicator.cpp.
LibraryVersion nccl_version();

/// Ranks with a GPU each, through NCCL; nccl_communicator.cpp. Collective.
std::unique_ptr<Communicator> make_nccl_communicator(const Mpi& mpi, Device& device);

/// GPUs that average through the host's memory; cuda_staged_communicator.cpp. Collective.
std::unique_ptr<Communicator> make_cuda_staged_communicator(const Mpi& mpi, Device& device, WaitLimit limit);

/// The GPU that a rank drives.
struct GpuPlace {
  std::string host, gpu;  ///< host name, CudaDevice::unique_id
};
enum class GpuAveraging { self, nccl, staged };
struct GpuPlan {
  GpuAveraging averaging = GpuAveraging::self;
  std::string warning;  ///< one line for rank 0 to print, or empty
};
/// How ranks on these GPUs, by rank, average for a `choice` of auto, nccl or mpi: a function of its arguments alone.
/// Errors: no_device (nccl, and ranks share a GPU).
GpuPlan plan_gpu_averaging(std::span<const GpuPlace> gpus, std::string_view choice);

/// As carillon::shared_gpus; empty when each rank has its own.
std::string shared_gpus(std::span<const GpuPlace> gpus);
/// As carillon::shared_gpus, of GPUs; cuda_communicators.cpp.
std::string shared_cuda_gpus(const Mpi& mpi, Device& device);

}  // namespace carillon
