// Tests cuDNN's plans for the convolutions of whole networks. Needs no GPU.
#include <gtest/gtest.h>

#include <set>

#include "carillon/models/networks.h"
#include "tests/support/conv2d_tasks.h"
#include "tests/support/described_gpus.h"

namespace carillon::testing {
namespace {

/// A network at the image size and the batch size of its recipe. mnist has no convolutions.
struct TrainedNetwork {
  const char* name;
  MakeNetwork make;
  std::int64_t size, batch, channels = 3;
  bool has_products_only = false;  ///< the windows of all convolutions of the network tile their inputs, as in ViT's
                                   ///< patches
};

class NetworkPlansCuda : public ::testing::TestWithParam<TrainedNetwork> {};
INSTANTIATE_TEST_SUITE_P(
    Networks, NetworkPlansCuda,
    ::testing::Values(
        TrainedNetwork{"lenet", lenet_network, 28, 100, 1}, TrainedNetwork{"vgg7", vgg7_network, 28, 256, 1},
        TrainedNetwork{"cifar10", cifar10_network, 32, 128}, TrainedNetwork{"airbench94", airbench94_network, 32, 1024},
        TrainedNetwork{"airbench96", airbench96_network, 32, 1024}, TrainedNetwork{"resnet9", resnet9_network, 32, 512},
        TrainedNetwork{"resnet18_cifar", resnet18_cifar_network, 32, 128},
        TrainedNetwork{"resnet18", resnet18_network, 224, 256}, TrainedNetwork{"resnet34", resnet34_network, 224, 256},
        TrainedNetwork{"resnet50", resnet50_network, 224, 256},
        TrainedNetwork{"resnet101", resnet101_network, 224, 128},
        TrainedNetwork{"resnet152", resnet152_network, 224, 64},
        TrainedNetwork{"convnext_tiny", convnext_tiny_network, 224, 256, 3, true},
        TrainedNetwork{"convnext_small", convnext_small_network, 224, 128, 3, true},
        TrainedNetwork{"convnext_base", convnext_base_network, 224, 64, 3, true},
        TrainedNetwork{"vit_tiny", vit_tiny_patch16_224_network, 224, 256, 3, true},
        TrainedNetwork{"vit_small", vit_small_patch16_224_network, 224, 256, 3, true},
        TrainedNetwork{"vit_base", vit_base_patch16_224_network, 224, 256, 3, true},
        TrainedNetwork{"vit_tiny_32", vit_tiny_patch4_32_network, 32, 256, 3, true}),
    [](const auto& test) { return test.param.name; });

/// cuBLASLt computes convolutions with windows that tile the input, as products. In tf32 and bf16, its products may use
/// tensor cores; without a GPU no test can show that they do. ConvNeXt's depthwise convolutions have no products, only
/// elementwise kernels.
TEST_P(NetworkPlansCuda, UseTensorCoresAndFitTheWorkspace) {
  const TrainedNetwork& trained = GetParam();
  const Network network =
      trained.make({.image = {trained.size, trained.size, trained.channels}, .outputs = 10, .distort = true});
  std::set<std::string> seen;
  bool has_products = false;
  for (const std::string_view gpu : {h200, a100}) {
    const CudnnTarget target{.device_json = gpu};
    for (const Arithmetic arithmetic : {Arithmetic::tf32, Arithmetic::bf16}) {
      for (const auto& [op, task, is_product] :
           conv2d_tasks(network, trained.batch, arithmetic, h200_workspace_bytes)) {
        has_products |= is_product;
        if (is_product) continue;
        const std::string text = Conv2dPlan::text(target, task);
        if (!seen.insert(text).second) continue;
        std::string reason;
        const auto plan = Conv2dPlan::find(target, task, reason);
        if (!plan && task.pass == Conv2dPass::forward_bias) continue;  // in this case, the op itself adds the biases
        ASSERT_TRUE(plan) << op << ", " << text << ": " << reason;
        EXPECT_TRUE(plan->on_tensor_cores()) << op << ", " << text << ": " << plan->kernel();
        EXPECT_LE(plan->workspace_bytes(), h200_workspace_bytes);
      }
    }
  }
  EXPECT_EQ(seen.empty(), trained.has_products_only);
  EXPECT_TRUE(has_products || !trained.has_products_only);
}

}  // namespace
}  // namespace carillon::testing
