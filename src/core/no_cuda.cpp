// Stands in for the CUDA backend in a build without it.
#include "carillon/core/error.h"
#include "cuda_door.h"

namespace carillon {

int cuda_device_count() { return 0; }

std::unique_ptr<Device> open_cuda_device(const DeviceRequest& /*request*/) {
  fail(ExitCode::no_device, "--device cuda: this build has no GPU tower (it was configured without CUDA)");
}

}  // namespace carillon
