// CARILLON_UNROLL before a loop: the CUDA compiler unrolls it, so that an array indexed in it stays in registers.
#pragma once

#ifdef __CUDA_ARCH__
#define CARILLON_UNROLL _Pragma("unroll")
#else
#define CARILLON_UNROLL
#endif
