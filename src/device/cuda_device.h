// CudaDevice: one NVIDIA GPU with its streams and library handles, and graphs of captured work. CUDA builds only.
//
// `stream()` computes; `side_stream()` moves data and gradients concurrently. Events order the two streams.
// The program checks every call of CUDA, cuBLAS and cuDNN. Errors: failed (the message contains the library's text and
// the call).
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/handle.h"
#include "carillon/device/device.h"
#include "src/device/cuda_backend.h"

namespace carillon {

/// Throws Error(failed) with the source line unless `status` is success.
void check_cuda(cudaError_t status, const std::source_location& where = std::source_location::current());
void check_cublas(cublasStatus_t status, const std::source_location& where = std::source_location::current());
void check_cudnn(cudnnStatus_t status, const std::source_location& where = std::source_location::current());

/// Checks the version of the loaded cuDNN. Errors: no_device (the loaded cuDNN is older than the cuDNN of the build;
/// the patch level does not count).
void check_cudnn_version(std::size_t loaded);

class CudaStream final : public Stream {
 public:
  /// `check`: the function of Device::check_while_waiting, or null. The function must outlive the stream.
  explicit CudaStream(const std::function<void()>* check = nullptr);
  cudaStream_t get() const { return stream_.get(); }
  void synchronize() override;

 private:
  const std::function<void()>* check_;
  Handle<cudaStream_t, cudaStreamDestroy> stream_;
};

/// An event: marks a point in the sequence of work on a stream.
class CudaEvent {
 public:
  CudaEvent();
  /// Moves the point to the end of the work that is now enqueued on `stream`.
  void record(const CudaStream& stream);
  /// Makes later work on `stream` wait for the point.
  void make_wait(const CudaStream& stream) const;
  /// True if the work before the point is done. Errors: failed (that work had an error).
  bool done() const;
  /// Returns when the work before the point is done.
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
  void upload(const void* host, void* memory, std::size_t bytes) override;
  void download(const void* memory, void* host, std::size_t bytes) override;
  void copy(const void* from, void* to, std::size_t bytes) override;
  void check_while_waiting(std::function<void()> check) override { check_ = std::move(check); }

  /// Returns when the work before the event's point is done. Meanwhile it polls, and calls the function that
  /// check_while_waiting has set.
  void wait_for(const CudaEvent& event) const;

  const CudaStream& compute_stream() const { return compute_; }
  CudaStream& side_stream() { return side_; }
  cublasLtHandle_t cublas() const { return cublas_.get(); }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }  ///< the handle is bound to the compute stream
  /// Scratch memory for the op that runs on the compute stream.
  std::span<std::byte> workspace() const { return {static_cast<std::byte*>(workspace_.data()), workspace_.bytes()}; }

  /// Objects that several ops share. The objects live as long as the device.
  SharedObjects& shared() { return shared_; }

  /// Allocates zeroed, page-locked host memory for asynchronous copies and for access by kernels.
  Buffer allocate_pinned(std::size_t bytes);
  /// Bytes of free device memory.
  std::size_t free_bytes() const;
  /// Returns "GPU-" and the UUID, as in nvidia-smi. For a MIG slice, returns the PCI address of the slice's GPU: "GPU
  /// 0000:1b:00.0".
  std::string unique_id() const;

 private:
  int ordinal_;
  std::function<void()> check_;
  CudaStream compute_{&check_}, side_{&check_};
  Handle<cublasLtHandle_t, cublasLtDestroy> cublas_;
  Handle<cudnnHandle_t, cudnnDestroy> cudnn_;
  Buffer workspace_;
  SharedObjects shared_;  ///< declared after the handles, so it is destroyed before them
};

/// Waits for a GPU by polling: returns when `done()` is true. `check` is called every 1024 polls and may throw.
void poll_until(const std::function<bool()>& done, const std::function<void()>& check);

/// True if kernels use programmatic dependent launch: the blocks of a kernel start while the previous kernel of the
/// stream still runs, and then wait until the previous kernel ends. Requires CARILLON_EARLY_LAUNCH=1 in the environment
/// and compute capability 9.0 or later.
bool launches_early();

/// Casts `device` to CudaDevice. Errors: failed (it is a device of another kind).
CudaDevice& as_cuda(Device& device);
/// Casts `stream` to CudaStream. Errors: failed (it is a stream of another kind).
const CudaStream& as_cuda(Stream& stream);

using ExecutableGraph = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Captures the work that `enqueue` puts on `stream`, and on other streams that `enqueue` forks and joins. `what`: name
/// of the work in an error message, for example "a step". `nodes`: receives the names of the graph's nodes; may be
/// null. Errors: the errors of `enqueue`, with advice on --cuda-graph in the message.
ExecutableGraph capture(const CudaStream& stream, const std::function<void()>& enqueue, const char* what,
                        std::vector<std::string>* nodes = nullptr);

/// Returns the names of the nodes, in the order in which CUDA lists the nodes. So far, this is the order of capture,
/// but CUDA does not guarantee it. A BlockKernel has a name such as "UpdateKernel<Sgd>"; other kernels have their
/// function name, or "kernel" if CUDA does not report it. The names of other nodes are "copy", "memset" and "node". The
/// result is empty if CUDA does not list the nodes.
std::vector<std::string> node_names(cudaGraph_t graph);

/// Returns the node name for a mangled function name, "_ZN8carillon12block_kernelI...".
std::string kernel_title(std::string_view mangled);

/// The GPU for which cuDNN makes a plan. It is the GPU of `handle`, or a GPU that a JSON text describes (the device
/// property descriptor of cuDNN 9.8). A described GPU need not be present, but its plans can run only on such a GPU.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string_view device_json = {};
};

/// The model of a GPU.
struct GpuModel {
  int compute_capability = 0;  ///< for example 90 for compute capability 9.0
  int multiprocessors = 0;
};

}  // namespace carillon
