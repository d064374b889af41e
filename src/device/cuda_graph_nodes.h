// What a captured graph holds, by name. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// The nodes as CUDA lists them, which is the order in which they were captured, though nothing promises that:
/// "UpdateKernel<Sgd>" of a BlockKernel, another kernel by its function's name, "copy", "memset", "node" of any other
/// kind. Where CUDA does not tell, "kernel", or none at all.
std::vector<std::string> node_names(cudaGraph_t graph);

/// What `mangled` is called there: "_ZN8carillon12block_kernelI...".
std::string kernel_title(std::string_view mangled);

}  // namespace carillon
