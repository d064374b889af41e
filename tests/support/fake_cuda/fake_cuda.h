// fake_cuda: an emulation of CUDA's runtime on the CPU, for tests. It delays work as long as CUDA may delay it, and it
// reports every error that CUDA may report.
//
// Device memory is host memory; it is filled with 0xff when it is allocated. The process ends if the host accesses
// device memory outside of a kernel or copy, or if a kernel accesses up to 256 bytes after the end of an allocation.
// Work on a stream runs when the host waits for it. A seed determines the order in which the work of different streams
// runs, and events limit this order. Therefore, if the tested code forgets a wait, it gets wrong results. A copy reads
// page-locked memory when the copy runs, and other memory when the host calls the copy function. Captures follow CUDA's
// rules and errors. Misuse that CUDA would not report ends the process with a message.
// The fake does not emulate the default stream, calls that only relaxed captures allow, timing, several processes on
// one device, or concurrent threads of a block (see tests/support/emulate.h). It does not emulate cuDNN's graphs
// either: conv2d_plan.cpp and attention_plan.cpp replace them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fake_cuda {

/// A GPU that this rank can see.
struct Gpu {
  int number = 0;             ///< part of the GPU's UUID and name
  int pci_bus = 0;            ///< part of the PCI address
  int major = 9;              ///< compute capability
  std::string name_end = {};  ///< end of the name, such as " MIG 1g.18gb"
};

struct Settings {
  std::uint64_t seed = 1;
  double eagerness = 0.0;  ///< probability that a device runs some pending work when new work is enqueued
  int devices = 1;
  std::vector<Gpu> gpus = {};          ///< the devices; empty: `devices` GPUs with the numbers 0, 1, ...
  bool fused_biases = true;            ///< true: cuBLASLt and cuDNN have kernels that add biases or sum bias gradients
  bool divided_bias_gradients = true;  ///< true: cuBLASLt divides the sums of bias gradients
  std::size_t device_bytes = std::size_t{2} << 30;
  bool nccl_windows = true;  ///< true: each rank's GPU can access the memory of the other ranks' GPUs
};

/// Finishes all pending work, then applies the settings. Before the first call, the fake uses the defaults of Settings.
/// The environment variables CARILLON_FAKE_CUDA_SEED and CARILLON_FAKE_CUDA_DEVICES can change two of them.
void configure(const Settings& settings);

/// Returns a list of the objects that were not freed, such as "2 device allocations, 1 stream". The list is empty if
/// all objects were freed.
std::string left_over();

/// Numbers of calls outside of captures since the process started.
struct Counts {
  std::uint64_t kernels = 0;  ///< launches of single kernels
  std::uint64_t graph_launches = 0;
  std::uint64_t graph_nodes = 0;  ///< sum of the nodes of all launched graphs
  std::uint64_t copies = 0;
  std::uint64_t waits = 0;  ///< waits for a stream or an event; each poll also counts
};
Counts counts();

/// Enqueues `body` as a kernel. `body` may read and write device memory and page-locked memory. If the stream is being
/// captured, `body` may run several times. `name`: the kernel's mangled name in graphs.
cudaError_t enqueue_kernel(cudaStream_t stream, std::function<void()> body, const std::string& name);

/// Enqueues work on `stream` that does not end before `release` is called, like a kernel that waits for a lost peer.
/// `stream` must not be in a capture.
class Stall {
 public:
  explicit Stall(cudaStream_t stream);
  void release();

 private:
  std::shared_ptr<struct Work> work_;
};

/// Returns a pseudorandom number in [0, bound). The settings' seed determines the sequence.
std::uint64_t draw(std::uint64_t bound);

/// Prints `what` and ends the process.
[[noreturn]] void misuse(const std::string& what);

}  // namespace fake_cuda
