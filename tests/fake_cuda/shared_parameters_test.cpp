// Tests training steps of networks with ops that share variables, have several outputs, or broadcast.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

class SharedParametersOnAGpu : public GpuTest {
 protected:
  static Trained run(Device& device, const Network& network, Arithmetic arithmetic, bool capture) {
    const auto communicator = make_self_communicator(device);
    const Training training{
        .network = network, .steps = 5, .capture = capture, .arithmetic = arithmetic, .rule = "momentum"};
    const NoiseRecords records(16, network.image.bytes());
    return train(training, records, device, *communicator);
  }
  static Trained run_on_gpu(const Network& network, Arithmetic arithmetic, bool capture = true) {
    CudaDevice device(0);
    return run(device, network, arithmetic, capture);
  }
};

TEST_F(SharedParametersOnAGpu, TrainEquallyIfCapturedAndNearlyAsOnACpu) {
  for (const Network& network : {sharing_network(), parted_network()}) {
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
      const Trained captured = run_on_gpu(network, arithmetic);
      EXPECT_EQ(run_on_gpu(network, arithmetic).values, captured.values) << network.name;
      EXPECT_EQ(run_on_gpu(network, arithmetic, false).values, captured.values) << network.name;
      CpuDevice cpu(1);
      const Trained expected = run(cpu, network, arithmetic, true);
      ASSERT_EQ(captured.values.size(), expected.values.size());
      const float tolerance = arithmetic == Arithmetic::fp32 ? 1e-5f : 2e-2f;
      float largest = 0.0f;
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        largest = std::max(largest, std::abs(captured.values[i] - expected.values[i]));
      }
      EXPECT_LT(largest, tolerance) << network.name;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
