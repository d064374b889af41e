// The part of CUDA's driver API that Carillon calls, for the fake of tests/support/fake_cuda. Names and values are
// those of CUDA's header with the same file name.
#pragma once

#include <cuda_runtime_api.h>

using CUgraphNode = cudaGraphNode_t;
using CUfunction = struct CUfunc_st*;
using CUkernel = struct CUkern_st*;
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };

/// CUDA's struct, without the launch parameters.
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  CUkernel kern;
};

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params);
CUresult cuFuncGetName(const char** name, CUfunction function);
CUresult cuKernelGetName(const char** name, CUkernel kernel);
