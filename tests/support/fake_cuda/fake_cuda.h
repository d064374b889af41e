// fake_cuda: an emulation of CUDA's runtime on the CPU, for tests. It delays work as long as CUDA may delay it. It
// reports every error that CUDA may report.
//
// Device memory is host memory that is filled with 0xff when it is allocated. The process ends if the host accesses
// device memory outside of a kernel or copy, or if a kernel accesses up to 256 bytes after the end of an allocation.
// Work on a stream runs when the host waits for it. A seed determines the order in which work of different streams
// runs, within the limits that events set. Therefore, if the tested code forgets a wait, it gets wrong results. Copies
// read page-locked memory when they run, other memory when they are called. Captures follow CUDA's rules and errors.
// Misuse that CUDA would not report ends the process with a message.
// These parts are not emulated: the default stream, calls that only relaxed captures allow, timing, several processes
// on one device, concurrent threads of a block (see tests/support/emulate.h), and cuDNN's graphs (conv2d_plan.cpp and
// attention_plan.cpp replace them).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fake_cuda {

/// A GPU that a rank can see.
struct Gpu {
  int number = 0;             ///< number in the UUID and the name of the GPU
  int pci_bus = 0;            ///< bus number in the PCI address
  int major = 9;              ///< compute capability
  std::string name_end = {};  ///< end of the name, such as " MIG 1g.18gb"
};

struct Settings {
  std::uint64_t seed = 1;
  double eagerness = 0.0;  ///< probability that a device runs some of its pending work when new work is enqueued
  int devices = 1;
  std::vector<Gpu> gpus = {};  ///< the devices; if empty, there are `devices` GPUs with the numbers 0, 1, ...
  bool fused_biases = true;    ///< whether cuBLASLt and cuDNN have kernels that add biases or sum their gradients
  bool divided_bias_gradients = true;  ///< whether cuBLASLt divides the sums of bias gradients into parts
  std::size_t device_bytes = std::size_t{2} << 30;
  bool nccl_windows = true;  ///< whether the GPUs of the ranks can access each other's memory
};

/// Finishes all pending work, then applies the settings. Before the first call, the defaults and the environment
/// variables CARILLON_FAKE_CUDA_SEED and CARILLON_FAKE_CUDA_DEVICES determine the settings.
void configure(const Settings& settings);

/// The objects that were not freed, such as "2 device allocations, 1 stream"; empty if there are none.
std::string left_over();

/// Counts of calls outside of captures, since the start of the process.
struct Counts {
  std::uint64_t kernels = 0;  ///< launches of single kernels
  std::uint64_t graph_launches = 0;
  std::uint64_t graph_nodes = 0;  ///< nodes of all launched graphs together
  std::uint64_t copies = 0;
  std::uint64_t waits = 0;  ///< waits for a stream or an event; polling counts, too
};
Counts counts();

/// Enqueues `body`. `body` may read and write device memory and page-locked memory. If it is captured, it may run
/// several times.
/// `name`: mangled name of the kernel in graphs.
cudaError_t enqueue_kernel(cudaStream_t stream, std::function<void()> body, const std::string& name);

/// Enqueues work on `stream`, outside of captures. The work does not end before `release` is called, like a kernel that
/// waits for a lost peer.
class Stall {
 public:
  explicit Stall(cudaStream_t stream);
  void release();

 private:
  std::shared_ptr<struct Work> work_;
};

/// A random number in [0, bound), which depends on the seed.
std::uint64_t draw(std::uint64_t bound);

/// Prints `what` and ends the process.
[[noreturn]] void misuse(const std::string& what);

}  // namespace fake_cuda
