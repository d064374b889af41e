// Captures work on a stream as a CUDA graph. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "carillon/core/handle.h"
#include "src/device/cuda_device.h"

namespace carillon {

using ExecutableGraph = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Captures the work that `enqueue` puts on `stream`, and on streams that it forks and joins. `what`: the work's name
/// in an error ("a step"). `nodes`: receives the names of the graph's nodes; may be null. Errors: those of `enqueue`,
/// with advice.
ExecutableGraph capture(const CudaStream& stream, const std::function<void()>& enqueue, const char* what,
                        std::vector<std::string>* nodes = nullptr);

}  // namespace carillon
