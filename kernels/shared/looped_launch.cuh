// launch_looped: runs a LoopedKernel on a GPU. For .cu files.
#pragma once

#include "kernels/shared/launch.cuh"
#include "kernels/shared/looped_kernel.h"

namespace carillon {

/// A BlockKernel with one phase, which synchronises the block itself.
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

/// Enqueues `kernel`, unless it has no blocks.
template <LoopedKernel Kernel>
void launch_looped(const Kernel& kernel, Stream& stream) {
  launch(OnePhase<Kernel>{kernel}, stream);
}

}  // namespace carillon
