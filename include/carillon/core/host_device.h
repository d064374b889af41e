// CARILLON_HOST_DEVICE marks arithmetic that the CPU path and CUDA kernels share.
#pragma once

#ifdef __CUDACC__
#define CARILLON_HOST_DEVICE __host__ __device__
#else
#define CARILLON_HOST_DEVICE
#endif
