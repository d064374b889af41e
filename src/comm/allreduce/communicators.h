// The kinds of communicators, one file each.
#pragma once

#include <span>
#include <string>

#include "src/comm/allreduce/communicator.h"

namespace carillon {

/// For a run with one rank: every mean equals the rank's own value.
std::unique_ptr<Communicator> make_self_communicator(Device& device);

/// For gradients in host memory: shared memory within a host, messages between hosts. `hosts`: [ranks] host numbers as
/// Mpi::hosts; tests may pass others. Collective.
std::unique_ptr<Communicator> make_host_communicator(const Mpi& mpi, std::span<const int> hosts, WaitLimit limit = {},
                                                     Averaging averaging = {});

/// For GPUs; `choice` as in make_communicator. Collective. Defined in cuda_communicators.cpp, in builds with CUDA.
std::unique_ptr<Communicator> make_cuda_communicator(const Mpi& mpi, Device& device, std::string_view choice,
                                                     WaitLimit limit, Averaging averaging);

/// The NCCL version of the build. Defined in nccl_communicator.cpp.
LibraryVersion nccl_version();

/// Averages through NCCL, for ranks with one GPU each. Collective. Defined in nccl_communicator.cpp.
std::unique_ptr<Communicator> make_nccl_communicator(const Mpi& mpi, Device& device, Averaging averaging = {});

/// Averages the gradients of GPUs in host memory. Collective. Defined in cuda_communicators.cpp.
std::unique_ptr<Communicator> make_cuda_staged_communicator(const Mpi& mpi, Device& device, WaitLimit limit,
                                                            Averaging averaging);

/// The GPU that a rank drives.
struct GpuPlace {
  std::string host, gpu;  ///< host name, CudaDevice::unique_id
  int visible_gpus = 1;   ///< GPUs that the rank can see
};
enum class GpuAveraging { self, nccl, staged };
struct GpuPlan {
  GpuAveraging averaging = GpuAveraging::self;
  std::string warning;  ///< one line for rank 0 to print, or empty
};
/// Decides how ranks on these GPUs average. `gpus`: [ranks]. `choice`: auto, nccl or mpi. The result depends on the
/// arguments alone, so all ranks decide alike. Errors: no_device (`choice` is nccl and ranks share a GPU).
GpuPlan plan_gpu_averaging(std::span<const GpuPlace> gpus, std::string_view choice);

/// The text of shared_gpus (communicator.h); empty if each rank has its own GPU.
std::string shared_gpus(std::span<const GpuPlace> gpus);
/// Implements shared_gpus (communicator.h) for GPUs. Defined in cuda_communicators.cpp.
std::string shared_cuda_gpus(const Mpi& mpi, Device& device);

}  // namespace carillon
