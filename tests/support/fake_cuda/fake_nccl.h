// Settings of the fake NCCL for tests, and results that tests read.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace fake_cuda {

/// Whether ncclCommWindowRegister fails in this process.
void fail_nccl_windows(bool fails);
/// The number of windows that are registered in this process.
int nccl_windows();

/// For each initialization of NCCL since the previous call of this function: the values of NCCL_WIN_ENABLE,
/// NCCL_NVLS_ENABLE and NCCL_ALGO, such as "0 0 Ring".
std::vector<std::string> nccl_variables();

/// Simulates a lost peer: NCCL's next work on `stream` waits for it, and ncclCommGetAsyncError reports the loss. Later
/// work on the stream does not run before ncclCommAbort.
void lose_nccl_peer(cudaStream_t stream);

}  // namespace fake_cuda
