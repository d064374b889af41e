// Expects that a training step on a GPU has the same results as the step on a CPU, except for rounding. Tests only one
// network of each kind, because steps on the fake GPU are slow: 12 s for ResNet-50, 8 s for ConvNeXt-T. On a real GPU,
// tests/gpu/gpu_visit.py compares all networks.
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/pool/pool.h"
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
  /// Largest error of the variables, relative to their change in the step. Rounding can change which values a ReLU or a
  /// pooling passes on. In this case, the gradients differ. If a batch norm over few values comes after the ReLU or
  /// pooling, the gradients of all layers differ.
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

/// Returns a network of two residual blocks. Two ops read the first block's output; a batch norm of this block adds
/// their gradients.
Network two_residual_blocks() {
  return make_network("two_blocks", {.image = {28, 28, 1}, .distort = true, .seed = 3}, [](Graph& graph) {
    Value x = normalized_mnist_input(graph);
    x = conv_norm(graph, "stem", x, {.filters = 8, .stride = 4});
    for (const std::string name : {"block1", "block2"}) {
      const Value y = conv_norm(graph, name + "/a", x, {.filters = 8});
      x = relu(graph, name + "/relu", add(graph, name + "/sum", y, x));
    }
    return dense(graph, "logits", global_avg_pool(graph, "average", x),
                 {.units = 10, .weights = fan_in_uniform(8), .biases = std::nullopt});
  });
}

std::ptrdiff_t gradient_forks(DeviceKind device) {
  const BuiltNetwork built = build_network(two_residual_blocks(), {.batch_size = 4, .device = device});
  return std::ranges::count_if(built.graph.nodes(),
                               [](const Graph::Node& node) { return node.definition->type() == "gradient_fork"; });
}

class ResidualBlocksOnAGpu : public GpuTest {};

TEST_F(ResidualBlocksOnAGpu, GiveTheirGradientsToTheBatchNormBeforeThem) {
  EXPECT_EQ(gradient_forks(DeviceKind::cuda), 1);
  EXPECT_EQ(gradient_forks(DeviceKind::cpu), 0);
}

TEST_F(ResidualBlocksOnAGpu, HaveEqualBitsCapturedOrLaunched) {
  const NoiseRecords records(20, 784);
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
    for (const std::int64_t micro_batch : {0, 2}) {
      Training training{.network = two_residual_blocks(),
                        .batch_size = 4,
                        .micro_batch = micro_batch,
                        .steps = 6,
                        .arithmetic = arithmetic};
      const auto run = [&] {
        CudaDevice gpu(0);
        return train(training, records, gpu, *make_self_communicator(gpu));
      };
      const Trained captured = run();
      EXPECT_FALSE(captured.captured_nodes.empty());
      training.capture = false;
      expect_equal(captured, run());
    }
  }
}

}  // namespace
}  // namespace carillon::testing
