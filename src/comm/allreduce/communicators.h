// The kinds of communicators, for make_communicator and for tests. Construction is collective.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "src/comm/allreduce/communicator.h"

namespace carillon {

/// For a run with one rank: every mean equals the rank's own value.
std::unique_ptr<Communicator> make_self_communicator(Device& device);

/// For gradients in host memory: shared memory within a host, messages between hosts. `hosts`: [ranks] host numbers as
/// in Mpi::hosts; tests may pass other numbers.
std::unique_ptr<Communicator> make_host_communicator(const Mpi& mpi, std::span<const int> hosts, WaitLimit limit = {},
                                                     Averaging averaging = {});

/// For GPUs. `choice`: as in make_communicator. Defined in cuda_communicators.cpp, in builds with CUDA.
std::unique_ptr<Communicator> make_cuda_communicator(const Mpi& mpi, Device& device, std::string_view choice,
                                                     WaitLimit limit, Averaging averaging);

/// Returns the NCCL version of the build, for example "NCCL 2.20.5". Defined in nccl_communicator.cpp.
std::string nccl_version();

/// Averages through NCCL, for ranks with one GPU each. Defined in nccl_communicator.cpp.
std::unique_ptr<Communicator> make_nccl_communicator(const Mpi& mpi, Device& device, Averaging averaging = {});

/// Averages the gradients of GPUs through copies in host memory. Defined in cuda_communicators.cpp.
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
/// Decides how ranks on these GPUs average. `gpus`: [ranks]. `choice`: auto, nccl or mpi. The result depends only on
/// the arguments, so all ranks make the same decision. Errors: no_device (`choice` is nccl and ranks share a GPU).
GpuPlan plan_gpu_averaging(std::span<const GpuPlace> gpus, std::string_view choice);

/// Returns the text of shared_gpus for ranks on these GPUs.
std::string shared_gpus(std::span<const GpuPlace> gpus);
/// Implements shared_gpus for GPUs. Defined in cuda_communicators.cpp.
std::string shared_cuda_gpus(const Mpi& mpi, Device& device);

// Staged communicator: averages arrays of a device through copies in host memory.
//
// start_allreduce_mean copies the bucket to the host, concurrently with other work of the device. finish waits for the
// copies in order, averages them with a host communicator, and copies the means back. The means have the same bits as
// means of the host communicator.

/// The copies between device and host, and their order on the device.
class StagingCopies {
 public:
  virtual ~StagingCopies() = default;
  /// Call it before the first copy. `host`: the host memory that all copies read or write; it outlives this object.
  virtual void prepare(std::span<std::byte> host) = 0;
  /// Enqueues a copy to the host. The copy waits for the work that is already on `stream`, and runs concurrently with
  /// later work. `bucket`: number of the bucket in the step, from 0.
  virtual void start_download(std::size_t bucket, std::span<const float> device, float* host, Stream& stream) = 0;
  /// True if the latest download of bucket number `bucket` is done.
  virtual bool downloaded(std::size_t bucket) = 0;
  /// Enqueues a copy to the device on `stream`.
  virtual void start_upload(std::span<const float> host, float* device, Stream& stream) = 0;
};

/// The host communicator and the device that owns its memory.
struct HostSide {
  std::unique_ptr<Device> memory;
  std::unique_ptr<Communicator> communicator;
};

/// `device` outlives the communicator.
std::unique_ptr<Communicator> make_staged_communicator(HostSide host, Device& device,
                                                       std::unique_ptr<StagingCopies> copies);

}  // namespace carillon
