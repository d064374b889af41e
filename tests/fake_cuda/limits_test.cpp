// Behaviour that depends on the size of a GPU, and limits of ops on a GPU.
#include "carillon/core/error.h"
#include "kernels/attention/attention.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "src/step/tower.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/networks.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

class SmallGpu : public GpuTest {};

TEST_F(SmallGpu, OutOfMemoryIsAnErrorWithoutLeaks) {
  CudaDevice device(0);
  set_conditions({.device_bytes = (std::size_t{256} << 20) + (std::size_t{1} << 18)});
  const auto communicator = make_self_communicator(device);
  EXPECT_THROW(Tower(mnist_network(mnist_images()), ten_classes(), {.batch_size = 8}, device, *communicator), Error);
}

class AttentionOnAGpu : public GpuTest {};

TEST_F(AttentionOnAGpu, RefusesHeadsOfMoreThan256Channels) {
  CudaDevice device(0);
  for (const std::int64_t head_size : {256, 257}) {
    OpHarness harness(1, device);
    const Value y = attention(harness.graph(), "op", harness.input("x", {1, 2, 3 * head_size}), {.heads = 1});
    if (head_size == 256) {
      EXPECT_NO_THROW(harness.finish(y));
    } else {
      EXPECT_THROW(harness.finish(y), Error);
    }
  }
}

}  // namespace
}  // namespace carillon::testing
