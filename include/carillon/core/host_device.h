// CARILLON_HOST_DEVICE marks arithmetic that the CPU path, CPU tests and CUDA kernels share.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define CARILLON_HOST_DEVICE __host__ __device__
#else
#define CARILLON_HOST_DEVICE
#endif

namespace carillon {

/// a * b, rounded before it is added to anything (no fused multiply-add).
CARILLON_HOST_DEVICE inline float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// Increments a counter that all blocks of a launch share, and returns the old value. The writes of a thread before its
/// call are visible to each thread that later gets a larger value.
CARILLON_HOST_DEVICE inline std::uint32_t fetch_increment(std::uint32_t* counter) {
#ifdef __CUDA_ARCH__
  __threadfence();
  const std::uint32_t before = atomicAdd(counter, 1u);
  __threadfence();
  return before;
#else
  return (*counter)++;  // the emulation on a CPU runs threads one after another
#endif
}

}  // namespace carillon
