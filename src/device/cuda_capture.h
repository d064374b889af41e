// Captures work on a stream as a CUDA graph, and names the nodes of the graph. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/handle.h"
#include "src/device/cuda_device.h"

namespace carillon {

using ExecutableGraph = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Captures the work that `enqueue` puts on `stream`, and on streams that it forks and joins. `what`: the work's name
/// in an error ("a step"). `nodes`: receives the names of the graph's nodes; may be null. Errors: the errors of
/// `enqueue`, with advice added.
ExecutableGraph capture(const CudaStream& stream, const std::function<void()>& enqueue, const char* what,
                        std::vector<std::string>* nodes = nullptr);

/// The node names in the order in which CUDA lists them. This is the order of capture, although CUDA does not guarantee
/// it. "UpdateKernel<Sgd>" for a BlockKernel, the function name for other kernels, "copy", "memset", and "node" for
/// other kinds. "kernel" if CUDA does not report a name; empty if it does not list nodes.
std::vector<std::string> node_names(cudaGraph_t graph);

/// The node name for a mangled function name, "_ZN8carillon12block_kernelI...".
std::string kernel_title(std::string_view mangled);

}  // namespace carillon
