// Behaviour that depends on the size of a GPU, and limits of ops on a GPU.
#include <map>

#include "carillon/core/error.h"
#include "kernels/attention/attention.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "src/step/tower.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/networks.h"
#include "tests/support/op_harness.h"
#include "tests/support/op_results.h"

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

Value add_attention(OpHarness& harness, const Shape& qkv, std::int64_t heads) {
  return attention(harness.graph(), "op", harness.input("x", qkv), {.heads = heads});
}

/// In training, each score needs 16 bytes of workspace. The workspace has 256 MiB; 32 MiB of it are reserved for matrix
/// products.
TEST_F(AttentionOnAGpu, RefusesTokensWhoseScoresDoNotFitIntoTheWorkspace) {
  CudaDevice device(0);
  for (const std::int64_t tokens : {3824, 3840}) {
    OpHarness harness(1, device);
    const Value y = add_attention(harness, {1, tokens, 3}, 1);
    if (tokens == 3824) {
      EXPECT_NO_THROW(harness.finish(y));
    } else {
      EXPECT_THROW(harness.finish(y), Error);
    }
  }
}

/// The workspace is large enough for 14 of the 15 samples of 1000 tokens.
TEST_F(AttentionOnAGpu, DividesSamplesThatDoNotFitIntoTheWorkspaceAtOnce) {
  const Shape qkv{15, 1000, 3 * 2 * 3};
  CpuDevice cpu(1);
  OpHarness on_cpu(15, cpu);
  on_cpu.finish(add_attention(on_cpu, qkv, 2));
  CudaDevice gpu(0);
  OpHarness on_gpu(15, gpu);
  on_gpu.finish(add_attention(on_gpu, qkv, 2));
  const std::vector<float> y = copy(on_cpu.forward());
  expect_close({{"y", y}}, {{"y", copy(on_gpu.forward())}}, 5e-6f);
  on_cpu.backward();
  on_gpu.backward();
  expect_close({{"dx", copy(on_cpu.gradient("x"))}}, {{"dx", copy(on_gpu.gradient("x"))}}, 5e-6f);
}

/// The workspace of 256 MiB is too small for the gradients of 9 samples with 1024 heads.
TEST_F(AttentionOnAGpu, DividesTheBatchOfTheFusedGradientIfTheWorkspaceIsTooSmall) {
  const std::map<std::int64_t, std::uint64_t> parts{{8, 1}, {12, 2}, {20, 4}};
  for (const auto& [batch, operations] : parts) {
    SCOPED_TRACE(batch);
    const Shape qkv{batch, 2, 3 * 1024 * 8};
    CpuDevice cpu(1);
    OpHarness on_cpu(batch, cpu);
    on_cpu.finish(add_attention(on_cpu, qkv, 1024));
    CudaDevice gpu(0);
    OpHarness on_gpu(batch, gpu, Arithmetic::bf16);
    on_gpu.finish(add_attention(on_gpu, qkv, 1024));
    const std::vector<float> y = copy(on_cpu.forward());
    expect_close({{"y", y}}, {{"y", copy(on_gpu.forward())}}, 1.5e-2f);
    on_cpu.backward();
    const std::uint64_t before = fake_cuda::counts().kernels;
    on_gpu.backward();
    EXPECT_EQ(fake_cuda::counts().kernels, before + operations);
    expect_close({{"dx", copy(on_cpu.gradient("x"))}}, {{"dx", copy(on_gpu.gradient("x"))}}, 1.5e-2f);
  }
}

}  // namespace
}  // namespace carillon::testing
