// Functions by which tests configure the fake NCCL and read what it recorded.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace fake_cuda {

/// Sets whether ncclCommWindowRegister fails in this process.
void fail_nccl_windows(bool fails);
/// Returns how many windows are registered in this process.
int nccl_windows();

/// Returns one text for each initialization of NCCL since the previous call of this function: the values of
/// NCCL_WIN_ENABLE, NCCL_NVLS_ENABLE and NCCL_ALGO, such as "0 0 Ring".
std::vector<std::string> nccl_variables();

/// Simulates the loss of a peer. NCCL's next work on `stream` waits for the peer, and ncclCommGetAsyncError reports the
/// loss. Work that is enqueued on the stream after it does not run before ncclCommAbort.
void lose_nccl_peer(cudaStream_t stream);

}  // namespace fake_cuda
