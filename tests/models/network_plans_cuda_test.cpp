// Tests cuDNN's plans for the convolutions of whole networks. Needs no GPU.
#include <gtest/gtest.h>

#include <set>

#include "carillon/models/networks.h"
#include "tests/support/conv2d_tasks.h"
#include "tests/support/described_gpus.h"

namespace carillon::testing {
namespace {

/// A network, with the image size and the batch size of its recipe.
struct TrainedNetwork {
  const char* name;
  MakeNetwork make;
  std::int64_t size, batch, channels = 3;
};

class NetworkPlansCuda : public ::testing::TestWithParam<TrainedNetwork> {};
INSTANTIATE_TEST_SUITE_P(Networks, NetworkPlansCuda,
                         ::testing::Values(TrainedNetwork{"lenet", lenet_network, 28, 100, 1},
                                           TrainedNetwork{"vgg7", vgg7_network, 28, 256, 1},
                                           TrainedNetwork{"cifar10", cifar10_network, 32, 128},
                                           TrainedNetwork{"airbench94", airbench94_network, 32, 1024},
                                           TrainedNetwork{"airbench96", airbench96_network, 32, 1024},
                                           TrainedNetwork{"resnet9", resnet9_network, 32, 512},
                                           TrainedNetwork{"resnet18_cifar", resnet18_cifar_network, 32, 128},
                                           TrainedNetwork{"resnet18", resnet18_network, 224, 256},
                                           TrainedNetwork{"resnet50", resnet50_network, 224, 256}),
                         [](const auto& test) { return test.param.name; });

/// Returns whether the windows cover the input without gaps and without overlap. cuBLASLt computes such convolutions as
/// matrix products.
bool is_product(const Conv2dLayout& layout) { return layout.weights.extents[2] == layout.stride[0]; }

TEST_P(NetworkPlansCuda, UseTensorCoresAndFitTheWorkspace) {
  const TrainedNetwork& trained = GetParam();
  const Network network =
      trained.make({.image = {trained.size, trained.size, trained.channels}, .outputs = 10, .distort = true});
  const CudnnTarget target{.device_json = h200};
  std::set<std::string> seen;
  for (const Arithmetic arithmetic : {Arithmetic::tf32, Arithmetic::bf16}) {
    for (const auto& [op, task] : conv2d_tasks(network, trained.batch, arithmetic, h200_workspace_bytes)) {
      if (is_product(task.layout)) continue;
      const std::string text = Conv2dPlan::text(target, task);
      if (!seen.insert(text).second) continue;
      std::string reason;
      const auto plan = Conv2dPlan::find(target, task, reason);
      if (!plan && task.pass == Conv2dPass::forward_bias) continue;  // then the op adds the biases itself
      ASSERT_TRUE(plan) << op << ", " << text << ": " << reason;
      EXPECT_TRUE(plan->on_tensor_cores()) << op << ", " << text << ": " << plan->kernel();
      EXPECT_LE(plan->workspace_bytes(), h200_workspace_bytes);
    }
  }
  EXPECT_FALSE(seen.empty());
}

}  // namespace
}  // namespace carillon::testing
