// CARILLON_HOST_DEVICE marks arithmetic that the CPU path, CPU tests and CUDA kernels share.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define CARILLON_HOST_DEVICE __host__ __device__
#else
#define CARILLON_HOST_DEVICE
#endif

namespace carillon {

/// a * b, rounded by itself, whatever it is added to.
CARILLON_HOST_DEVICE inline float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// Adds 1 to a counter that all blocks of a launch share, and returns what it was. Writes of this thread before it are
/// seen by whoever reads a later value and then fences likewise.
CARILLON_HOST_DEVICE inline std::uint32_t fetch_increment(std::uint32_t* counter) {
#ifdef __CUDA_ARCH__
  __threadfence();
  const std::uint32_t before = atomicAdd(counter, 1u);
  __threadfence();
  return before;
#else
  return (*counter)++;  // the emulation on a CPU runs one thread after the other
#endif
}

}  // namespace carillon
