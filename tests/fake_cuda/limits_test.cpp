// Behaviour that depends on the size of a GPU.
#include "carillon/core/error.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "src/step/tower.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

class SmallGpu : public GpuTest {};

TEST_F(SmallGpu, OutOfMemoryIsAnErrorWithoutLeaks) {
  CudaDevice device(0);
  set_conditions({.device_bytes = (std::size_t{256} << 20) + (std::size_t{1} << 18)});
  const auto communicator = make_self_communicator(device);
  EXPECT_THROW(Tower(mnist_network(mnist_images()), ten_classes(), {.batch_size = 8}, device, *communicator), Error);
}

}  // namespace
}  // namespace carillon::testing
