// Names of the nodes of a captured CUDA graph. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// The node names in CUDA's order, which is the order of capture (not guaranteed by CUDA). "UpdateKernel<Sgd>" for a
/// BlockKernel, the function name for other kernels, "copy", "memset", and "node" for other kinds. "kernel" if CUDA
/// does not report a name; empty if it does not list nodes.
std::vector<std::string> node_names(cudaGraph_t graph);

/// The node name for a mangled function name, "_ZN8carillon12block_kernelI...".
std::string kernel_title(std::string_view mangled);

}  // namespace carillon
