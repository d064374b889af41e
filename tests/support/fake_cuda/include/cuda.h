// The part of CUDA's driver API that Carillon calls, for the fake in tests/support/fake_cuda. Names and values are
// those of CUDA's header cuda.h.
#pragma once

#include <cuda_runtime_api.h>

using CUgraphNode = cudaGraphNode_t;
using CUfunction = struct CUfunc_st*;
using CUkernel = struct CUkern_st*;
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };

/// CUDA's struct of this name, without the members for the launch parameters.
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  CUkernel kern;
};

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params);
CUresult cuFuncGetName(const char** name, CUfunction function);
CUresult cuKernelGetName(const char** name, CUkernel kernel);
