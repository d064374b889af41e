// Stands in for the CUDA backend in a build without it.
#include "carillon/core/error.h"
#include "src/device/cuda_backend.h"

namespace carillon {

CudaGpus find_cuda_gpus() { return {.why_none = "this build has no GPU tower (it was configured without CUDA)"}; }

std::vector<LibraryVersion> cuda_libraries() { return {}; }

std::unique_ptr<Device> open_cuda_device(const DeviceRequest& /*request*/, int /*count*/) {
  fail(ExitCode::failed, "a GPU was opened in a build without CUDA");
}

}  // namespace carillon
