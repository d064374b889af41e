// launch: runs a BlockKernel or a LoopedKernel on a GPU, possibly before the previous kernel ends (launches_early). For
// .cu files.
#pragma once

#include <initializer_list>
#include <utility>

#include "kernels/shared/block_kernel.h"
#include "src/device/cuda_device.h"

namespace carillon {

/// True if the build contains code that waits for the previous kernel. Only such code may be launched early.
inline constexpr bool built_to_wait = [] {
  constexpr int first_that_can = 900;
  for (const int architecture : {__CUDA_ARCH_LIST__}) {
    if (architecture >= first_that_can) return true;
  }
  return false;
}();

template <typename Kernel, int phase>
__device__ __forceinline__ void run_phases_from(const Kernel& kernel, typename Kernel::Shared& shared) {
  if constexpr (phase < Kernel::phases) {
    if constexpr (phase > 0) __syncthreads();
    kernel.template run<phase>(shared, static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
    run_phases_from<Kernel, phase + 1>(kernel, shared);
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads) block_kernel(const __grid_constant__ Kernel kernel) {
  using Shared = typename Kernel::Shared;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();  // waits until the previous kernel has ended and its writes are visible
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  __shared__ alignas(Shared) unsigned char memory[sizeof(Shared)];  // shared variables cannot have constructors
  run_phases_from<Kernel, 0>(kernel, *reinterpret_cast<Shared*>(memory));
}

/// Enqueues `kernel`. Does nothing if the kernel has no blocks.
template <BlockKernel Kernel>
void launch(const Kernel& kernel, Stream& stream) {
  const int blocks = kernel.blocks();
  if (blocks == 0) return;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Kernel::threads);
  config.stream = as_cuda(stream).get();
  config.attrs = &early;
  config.numAttrs = built_to_wait && launches_early() ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, block_kernel<Kernel>, kernel));
}

/// Adapts a LoopedKernel to a BlockKernel with one phase. The phase synchronises the block itself.
template <typename Kernel>
struct OnePhase {
  using Shared = typename Kernel::Shared;
  using Private = typename Kernel::Private;
  static constexpr int threads = Kernel::threads;
  static constexpr int phases = 1;

  Kernel kernel;

  int blocks() const { return kernel.blocks(); }
  template <int>
  __device__ __forceinline__ void run(Shared& shared, int block, int thread) const {
    Private own;
    const int rounds = kernel.rounds();
    for (int round = 0; round < rounds; ++round) run_round<0>(shared, own, block, thread, round);
    finish_from<0>(shared, own, block, thread);
  }

 private:
  template <int phase>
  __device__ __forceinline__ void run_round(Shared& shared, Private& own, int block, int thread, int round) const {
    if constexpr (phase < Kernel::phases) {
      kernel.template run<phase>(shared, own, block, thread, round);
      __syncthreads();
      run_round<phase + 1>(shared, own, block, thread, round);
    }
  }
  template <int phase>
  __device__ __forceinline__ void finish_from(Shared& shared, Private& own, int block, int thread) const {
    if constexpr (phase < Kernel::last_phases) {
      if constexpr (phase > 0) __syncthreads();
      kernel.template finish<phase>(shared, own, block, thread);
      finish_from<phase + 1>(shared, own, block, thread);
    }
  }
};

template <LoopedKernel Kernel>
void launch(const Kernel& kernel, Stream& stream) {
  launch(OnePhase<Kernel>{kernel}, stream);
}

}  // namespace carillon
