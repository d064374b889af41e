// CudaDevice: one NVIDIA GPU, with the streams and library handles that a tower on it uses. CUDA builds only.
//
// Two streams: `stream()` computes; `side_stream()` moves data and gradients beside it. Events order them.
// Every call of CUDA, cuBLAS and cuDNN is checked: errors are `failed`, with the library's own text and the call.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <functional>
#include <source_location>
#include <span>

#include "carillon/core/handle.h"
#include "carillon/device/device.h"

namespace carillon {

/// Throws Error(failed) naming the source line unless `status` is success.
void check_cuda(cudaError_t status, const std::source_location& where = std::source_location::current());
void check_cublas(cublasStatus_t status, const std::source_location& where = std::source_location::current());
void check_cudnn(cudnnStatus_t status, const std::source_location& where = std::source_location::current());

/// Errors: no_device (an older cuDNN is loaded than the program was built with; patches aside).
void check_cudnn_version(std::size_t loaded);

class CudaStream final : public Stream {
 public:
  /// `check`: as Device::check_while_waiting; outlives the stream; null: nobody looks.
  explicit CudaStream(const std::function<void()>* check = nullptr);
  cudaStream_t get() const { return stream_.get(); }
  void synchronize() override;

 private:
  const std::function<void()>* check_;
  Handle<cudaStream_t, cudaStreamDestroy> stream_;
};

/// A point in a stream's work.
class CudaEvent {
 public:
  CudaEvent();
  /// Moves the point to the end of what `stream` has now.
  void record(const CudaStream& stream);
  /// Lets later work of `stream` wait for the point.
  void make_wait(const CudaStream& stream) const;
  /// Whether the work before the point is done. Errors: failed (an error of that work).
  bool done() const;
  /// Returns when it is.
  void wait() const;

 private:
  Handle<cudaEvent_t, cudaEventDestroy> event_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override;
  Buffer allocate(std::size_t bytes) override;
  Stream& stream() override { return compute_; }
  bool computes_in(Arithmetic /*arithmetic*/) const override { return true; }
  void upload(const void* host, void* memory, std::size_t bytes) override;
  void download(const void* memory, void* host, std::size_t bytes) override;
  void check_while_waiting(std::function<void()> check) override { check_ = std::move(check); }

  const CudaStream& compute_stream() const { return compute_; }
  CudaStream& side_stream() { return side_; }
  cublasLtHandle_t cublas() const { return cublas_.get(); }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }  ///< bound to the compute stream
  /// Scratch memory that ops of the compute stream use one after the other.
  std::span<std::byte> workspace() const { return {static_cast<std::byte*>(workspace_.data()), workspace_.bytes()}; }

  /// Page-locked host memory, zeroed, that copies of a stream read and write directly and kernels can address.
  Buffer allocate_pinned(std::size_t bytes);
  /// Bytes that could be allocated now.
  std::size_t free_bytes() const;
  /// "GPU 0000:1b:00.0", its place in its host: equal on two ranks that drive the same GPU, or slices of it.
  std::string unique_id() const;

 private:
  int ordinal_;
  std::function<void()> check_;
  CudaStream compute_{&check_}, side_{&check_};
  Handle<cublasLtHandle_t, cublasLtDestroy> cublas_;
  Handle<cudnnHandle_t, cudnnDestroy> cudnn_;
  Buffer workspace_;
};

/// Whether a kernel's blocks may start while the kernel before it in the stream runs, and wait at their beginning until
/// that is over (programmatic dependent launch): where the environment's CARILLON_EARLY_LAUNCH is 1 and the current GPU
/// can, which one of compute capability 9.0 does.
bool launches_early();

/// The CudaDevice that `device` is. Errors: failed when it is another kind.
CudaDevice& as_cuda(Device& device);
/// The CUDA stream that `stream` is. Errors: failed when it is another kind.
const CudaStream& as_cuda(Stream& stream);

}  // namespace carillon
