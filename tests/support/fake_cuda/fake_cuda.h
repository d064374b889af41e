// fake_cuda: an emulation of CUDA's runtime on the CPU, for tests. It delays work as long as CUDA may delay it, and is
// as strict as CUDA may be.
//
// Device memory is host memory that is filled with 0xff when it is allocated. The process ends if the host accesses it
// outside of a kernel or copy, or if a kernel accesses up to 256 bytes after its end. Work on a stream runs when the
// host waits for it. A seed determines the order between streams, as far as events allow it, so a missing wait gives
// wrong results. Copies read page-locked memory when they run, other memory when they are called. Captures follow
// CUDA's rules and errors. Misuse that CUDA would not report ends the process with a message.
//
// Not emulated: the default stream, the additional rights of relaxed captures, timing, several processes on one device,
// concurrent threads of a block (see tests/support/emulate.h), cuDNN's graphs (conv2d_plan.cpp and attention_plan.cpp
// replace them).
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
  int number = 0;             ///< number in its UUID and name
  int pci_bus = 0;            ///< bus number in its PCI address
  int major = 9;              ///< compute capability
  std::string name_end = {};  ///< end of the name, such as " MIG 1g.18gb"
};

struct Settings {
  std::uint64_t seed = 1;
  double eagerness = 0.0;  ///< probability that a device runs some of its pending work when new work is enqueued
  int devices = 1;
  std::vector<Gpu> gpus = {};  ///< if not empty: the devices; otherwise there are `devices` new GPUs 0, 1, ...
  bool fused_biases = true;    ///< whether cuBLASLt and cuDNN have kernels that add biases or sum their gradients
  bool divided_bias_gradients = true;  ///< whether cuBLASLt's kernels that sum gradients of biases divide sums
  std::size_t device_bytes = std::size_t{2} << 30;
  bool nccl_windows = true;  ///< whether the ranks' GPUs reach each other
};

/// Finishes all pending work, then applies the settings. Before the first call, the defaults and the environment
/// variables CARILLON_FAKE_CUDA_SEED and CARILLON_FAKE_CUDA_DEVICES determine the settings.
void configure(const Settings& settings);

/// The objects that were not freed, such as "2 device allocations, 1 stream"; empty if there are none.
std::string left_over();

/// The numbers of calls outside of captures since the start of the process.
struct Counts {
  std::uint64_t kernels = 0;  ///< launches of single kernels
  std::uint64_t graph_launches = 0;
  std::uint64_t graph_nodes = 0;  ///< nodes of all launched graphs together
  std::uint64_t copies = 0;
  std::uint64_t waits = 0;  ///< waits for a stream or an event, also by polling
};
Counts counts();

/// Enqueues `body`. It may read and write device and page-locked memory. If it is captured, it may run several times.
/// `name`: mangled name of the kernel in graphs.
cudaError_t enqueue_kernel(cudaStream_t stream, std::function<void()> body, const std::string& name);

/// Enqueues work on `stream`, outside of captures. The work does not end before `release`, like a kernel that waits for
/// a lost peer.
class Stall {
 public:
  explicit Stall(cudaStream_t stream);
  void release();

 private:
  std::shared_ptr<struct Work> work_;
};

/// A random number in [0, bound), which depends on the seed.
std::uint64_t draw(std::uint64_t bound);

/// Ends the process with `what`.
[[noreturn]] void misuse(const std::string& what);

}  // namespace fake_cuda
