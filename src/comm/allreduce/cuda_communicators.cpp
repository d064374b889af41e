#include <unistd.h>

#include <string>
#include <vector>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"

namespace carillon {
namespace {

/// [ranks] The GPU of each rank. Collective.
std::vector<GpuPlace> gather_gpus(const Mpi& mpi, const CudaDevice& device) {
  std::string mine;
  int visible = 0;
  mpi.run_on_all([&] {
    mine = device.unique_id();
    check_cuda(cudaGetDeviceCount(&visible));
  });
  const std::vector<std::string> hosts = mpi.all_gather(mpi.host()), gpus = mpi.all_gather(mine),
                                 counts = mpi.all_gather(std::to_string(visible));
  std::vector<GpuPlace> places;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    places.push_back({hosts[rank], gpus[rank], std::stoi(counts[rank])});
  }
  return places;
}

}  // namespace

std::string shared_cuda_gpus(const Mpi& mpi, Device& device) { return shared_gpus(gather_gpus(mpi, as_cuda(device))); }

std::unique_ptr<Communicator> make_cuda_communicator(const Mpi& mpi, Device& device, std::string_view choice,
                                                     WaitLimit limit, Averaging averaging) {
  const std::vector<GpuPlace> gpus = gather_gpus(mpi, as_cuda(device));
  GpuPlan plan;
  mpi.run_on_all([&] { plan = plan_gpu_averaging(gpus, choice); });
  if (mpi.rank() == 0 && !plan.warning.empty()) {
    print_text(STDERR_FILENO, fmt::format("warning: {}\n", plan.warning));
  }
  switch (plan.averaging) {
    case GpuAveraging::self:
      return make_self_communicator(device);
    case GpuAveraging::nccl:
      return make_nccl_communicator(mpi, device, averaging);
    case GpuAveraging::staged:
      return make_cuda_staged_communicator(mpi, device, limit, averaging);
  }
  fail(ExitCode::failed, "unknown GpuAveraging");
}

}  // namespace carillon
