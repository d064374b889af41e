// Replaces the CUDA backend in builds without CUDA.
#include "carillon/core/error.h"
#include "src/device/cuda_backend.h"

namespace carillon {

CudaGpus find_cuda_gpus() { return {.why_none = "this build has no GPU support (configured without CUDA)"}; }

std::vector<LibraryVersion> cuda_libraries() { return {}; }

std::unique_ptr<Device> open_cuda_device(const DeviceRequest& /*request*/, std::span<const int> /*ordinals*/) {
  fail(ExitCode::failed, "this build has no CUDA");
}

}  // namespace carillon
