#include <omp.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_backend.h"
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

/// Page-locks memory that it does not own, until destruction. If locking fails, copies still work, but each copy blocks
/// the host.
class PageLock {
 public:
  explicit PageLock(std::span<std::byte> memory) {
    if (cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault) == cudaSuccess) {
      locked_ = memory.data();
    } else {
      static_cast<void>(cudaGetLastError());  // clears the error, so that the next call does not report it
      print_text(STDERR_FILENO, "warning: cannot page-lock the gradient memory; averaging is slower\n");
    }
  }
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;
  ~PageLock() {
    if (locked_ != nullptr) static_cast<void>(cudaHostUnregister(locked_));
  }

 private:
  void* locked_ = nullptr;
};

class CudaStagingCopies final : public StagingCopies {
 public:
  explicit CudaStagingCopies(CudaDevice& device) : device_(device), side_work_(device.side_stream()) {}
  ~CudaStagingCopies() override {
    // After an error, copies that are in flight still use the locked pages.
    static_cast<void>(cudaStreamSynchronize(device_.side_stream().get()));
    static_cast<void>(cudaStreamSynchronize(device_.compute_stream().get()));
  }

  void prepare(std::span<std::byte> host) override { lock_ = std::make_unique<PageLock>(host); }

  void start_download(std::size_t bucket, std::span<const float> device, float* host, Stream& stream) override {
    side_work_.fork(as_cuda(stream));
    check_cuda(
        cudaMemcpyAsync(host, device.data(), device.size_bytes(), cudaMemcpyDeviceToHost, side_work_.side().get()));
    if (bucket == downloads_.size()) downloads_.emplace_back();
    downloads_[bucket].record(side_work_.side());
  }

  bool downloaded(std::size_t bucket) override { return downloads_[bucket].done(); }

  void start_upload(std::span<const float> host, float* device, Stream& stream) override {
    check_cuda(cudaMemcpyAsync(device, host.data(), host.size_bytes(), cudaMemcpyHostToDevice, as_cuda(stream).get()));
  }

 private:
  CudaDevice& device_;
  SideWork<CudaEvent, CudaStream> side_work_;
  std::vector<CudaEvent> downloads_;  // one object per bucket, which every step uses again
  std::unique_ptr<PageLock> lock_;
};

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

std::unique_ptr<Communicator> make_cuda_staged_communicator(const Mpi& mpi, Device& device, WaitLimit limit,
                                                            Averaging averaging) {
  auto memory = std::make_unique<CpuDevice>(omp_get_max_threads());
  auto host = make_host_communicator(mpi, mpi.hosts(), limit, averaging);
  return make_staged_communicator({std::move(memory), std::move(host)}, device,
                                  std::make_unique<CudaStagingCopies>(as_cuda(device)));
}

}  // namespace carillon
