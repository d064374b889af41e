// A training step of built-in networks on a GPU is that of the CPU, up to rounding. One network of each kind: on the
// fake GPU, a step of ResNet-50 takes 12 s, one of ConvNeXt-T 8 s. tests/gpu/gpu_visit.py compares all of them on a
// real GPU.
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"

namespace carillon::testing {
namespace {

struct NetworkCase {
  const char* name;
  Network network;
  /// Of the variables, as a share of their change in the step. Rounding can change which values a ReLU or a pooling
  /// passes on. Then gradients differ, in all layers if batch norms of few values follow.
  double tolerance = 1e-4;
};

std::vector<NetworkCase> networks() {
  const NetworkSettings grey = mnist_images(), colour = cifar10_images();
  return {{"mnist", mnist_network(grey)},
          {"lenet", lenet_network(grey)},
          {"vgg7", vgg7_network(grey), 0.05},
          {"cifar10", cifar10_network(cifar10_images())},
          {"resnet18", resnet18_network(colour), 0.05},
          {"resnet9", resnet9_network(colour), 0.05},
          {"vit_tiny_patch16_224", vit_tiny_patch16_224_network(colour)}};
}

class NetworksOnAGpu : public GpuTest, public ::testing::WithParamInterface<NetworkCase> {};
INSTANTIATE_TEST_SUITE_P(BuiltIn, NetworksOnAGpu, ::testing::ValuesIn(networks()),
                         [](const auto& test) { return std::string(test.param.name); });

Trained trained(const Training& training, Device& device) {
  const NoiseRecords records(20, training.network.image.bytes());
  const auto communicator = make_self_communicator(device);
  return train(training, records, device, *communicator);
}

TEST_P(NetworksOnAGpu, TrainAsOnTheCpu) {
  Training training{.network = GetParam().network, .batch_size = 4, .steps = 1, .learning_rate = 0.01f};
  CpuDevice cpu(2);
  CudaDevice gpu(0);
  const Trained expected = trained(training, cpu), found = trained(training, gpu);
  training.steps = 0;
  const Trained start = trained(training, cpu);
  const double change = distance(expected.values, start.values);
  EXPECT_GT(change, 0.0);
  EXPECT_LT(distance(found.values, expected.values), GetParam().tolerance * change);
  EXPECT_LE(distance(found.buffers, expected.buffers), 1e-4 * distance(expected.buffers, start.buffers));
  ASSERT_EQ(found.results.size(), 1u);
  EXPECT_NEAR(found.results[0].loss, expected.results[0].loss, 1e-5 * expected.results[0].loss);
}

}  // namespace
}  // namespace carillon::testing
