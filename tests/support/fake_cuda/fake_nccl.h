// The settings and results of the fake NCCL that tests set and read.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace fake_cuda {

/// Whether ncclCommWindowRegister fails in this process.
void fail_nccl_windows(bool fails);
/// The number of windows that are registered in this process.
int nccl_windows();

/// The values of NCCL_WIN_ENABLE, NCCL_NVLS_ENABLE and NCCL_ALGO, "0 0 Ring", at each call of NCCL that initializes it
/// since the last call of this function.
std::vector<std::string> nccl_variables();

/// NCCL's next work on `stream` waits for a lost peer: ncclCommGetAsyncError reports the loss, and work on the stream
/// from now on does not run before ncclCommAbort.
void lose_nccl_peer(cudaStream_t stream);

}  // namespace fake_cuda
