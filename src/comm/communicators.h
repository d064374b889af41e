// The communicators to choose from; one file each.
#pragma once

#include <span>
#include <string>

#include "carillon/comm/communicator.h"

namespace carillon {

/// One tower: every mean is the value itself.
std::unique_ptr<Communicator> make_self_communicator(Device& device);

/// Ranks of one host, gradients in memory that all of them map. Collective.
std::unique_ptr<Communicator> make_shared_memory_communicator(const Mpi& mpi);

/// Any ranks, messages. Collective.
std::unique_ptr<Communicator> make_message_communicator(Device& device);

/// The best of these for ranks whose gradients lie in the host's memory. Collective.
std::unique_ptr<Communicator> make_host_communicator(const Mpi& mpi, Device& device);

/// For towers on GPUs, by make_communicator's `choice`; cuda_communicators.cpp, in builds with CUDA. Collective.
std::unique_ptr<Communicator> make_cuda_communicator(const Mpi& mpi, Device& device, std::string_view choice);

/// Ranks with a GPU each, through NCCL; nccl_communicator.cpp. Collective.
std::unique_ptr<Communicator> make_nccl_communicator(const Mpi& mpi, Device& device);

/// GPUs that average through the host's memory; cuda_staged_communicator.cpp. Collective.
std::unique_ptr<Communicator> make_cuda_staged_communicator(const Mpi& mpi, Device& device);

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

/// Lets MPI's messages move on. To be called by who waits for something else: ranks that are still inside MPI may need
/// this one's part.
void progress_mpi();

/// The part of `count` elements whose sum rank `rank` of `size` takes: {begin, end}, at multiples of 16 elements.
struct Slice {
  std::size_t begin, end;
};
Slice reduction_slice(std::size_t count, int rank, int size);

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...) for i in [0, count), summed in that order; out may be a part.
void mean_in_rank_order(std::span<const float* const> parts, std::size_t count, float factor, float* out);

}  // namespace carillon
