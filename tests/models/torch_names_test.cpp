#include "src/models/torch_names.h"

#include <gmock/gmock.h>

#include "tests/support/state_dicts.h"

namespace carillon::testing {
namespace {

TEST(TorchNames, AreThoseOfTorchvisionsResNets) {
  EXPECT_EQ(torch_name("resnet18", "stem/weights"), "conv1.weight");
  EXPECT_EQ(torch_name("resnet18", "stem/norm/moving_variance"), "bn1.running_var");
  EXPECT_EQ(torch_name("resnet50", "stage1/block1/conv1/weights"), "layer1.0.conv1.weight");
  EXPECT_EQ(torch_name("resnet50", "stage3/block6/conv3/norm/gamma"), "layer3.5.bn3.weight");
  EXPECT_EQ(torch_name("resnet152", "stage3/block36/conv2/norm/beta"), "layer3.35.bn2.bias");
  EXPECT_EQ(torch_name("resnet50", "stage2/block1/projection/weights"), "layer2.0.downsample.0.weight");
  EXPECT_EQ(torch_name("resnet50", "stage2/block1/projection/norm/moving_mean"), "layer2.0.downsample.1.running_mean");
  EXPECT_EQ(torch_name("resnet50", "logits/weights"), "fc.weight");
  EXPECT_EQ(torch_name("resnet50", "logits/biases"), "fc.bias");
}

TEST(TorchNames, TellTheNetwork) {
  for (const auto& [name, arrays] : state_dicts()) {
    std::vector<TorchArray> all;
    for (const auto& [array, shape] : arrays) all.push_back({array, shape});
    EXPECT_EQ(torch_network(all), name);
  }
}

/// Blocks of torchvision's ResNets; widths, blocks and patches of timm's networks.
TEST(TorchNames, TellTheNetworkByItsBlocksAndShapes) {
  const TorchArray basic{"layer1.0.conv1.weight", {64, 64, 3, 3}}, bottleneck{"layer1.0.conv1.weight", {64, 64, 1, 1}};
  const TorchArray wide{"layer1.0.conv1.weight", {128, 64, 1, 1}}, of_block6{"layer3.5.bn3.weight", {1024}};
  EXPECT_EQ(torch_network({bottleneck, of_block6}), "resnet50");
  EXPECT_EQ(torch_network({wide, of_block6}), "") << "wide_resnet50_2, resnext50";
  EXPECT_EQ(
      torch_network(
          {basic, {"layer3.1.bn2.weight", {256}}, {"layer3.5.bn2.weight", {256}}, {"layer3.2.bn2.weight", {256}}}),
      "resnet34");
  EXPECT_EQ(torch_network({bottleneck,
                           {"layer3.5.bn3.weight", {1024}},
                           {"layer3.22.bn3.weight", {1024}},
                           {"layer3.6.bn3.weight", {1024}}}),
            "resnet101");
  EXPECT_EQ(torch_network({bottleneck,
                           {"layer3.22.bn3.weight", {1024}},
                           {"layer3.23.bn3.weight", {1024}},
                           {"layer3.6.bn3.weight", {1024}},
                           {"layer3.35.bn3.weight", {1024}}}),
            "resnet152");
  EXPECT_EQ(torch_network({{"stem.0.bias", {128}}, {"stages.2.blocks.26.gamma", {512}}}), "convnext_base");
  EXPECT_EQ(torch_network({{"stem.0.bias", {96}}, {"stages.2.blocks.26.gamma", {384}}}), "convnext_small");
  const auto transformer = [](const std::vector<std::int64_t>& patches) {
    return torch_network({{"patch_embed.proj.weight", patches}, {"blocks.11.norm1.weight", {192}}});
  };
  EXPECT_EQ(transformer({768, 3, 16, 16}), "vit_base_patch16_224");
  EXPECT_EQ(transformer({384, 3, 16, 16}), "vit_small_patch16_224");
  EXPECT_EQ(transformer({192, 3, 4, 4}), "vit_tiny_patch4_32");
  EXPECT_EQ(transformer({192, 3, 8, 8}), "");
  EXPECT_EQ(transformer({1024, 3, 16, 16}), "");
  EXPECT_EQ(transformer({192}), "");
  EXPECT_EQ(torch_network({}), "");
}

TEST(TorchNames, AreThoseOfTimmsNetworks) {
  EXPECT_EQ(torch_name("convnext_tiny", "average/norm/gamma"), "head.norm.weight");
  EXPECT_EQ(torch_name("convnext_tiny", "stage2/downsample/norm/gamma"), "stages.1.downsample.0.weight");
  EXPECT_EQ(torch_name("convnext_base", "stage3/block27/scale/gamma"), "stages.2.blocks.26.gamma");
  EXPECT_EQ(torch_name("convnext_tiny", "stage1/block1/depthwise/biases"), "stages.0.blocks.0.conv_dw.bias");
  EXPECT_EQ(torch_name("vit_small_patch16_224", "tokens/class"), "cls_token");
  EXPECT_EQ(torch_name("vit_small_patch16_224", "block12/attention/qkv/weights"), "blocks.11.attn.qkv.weight");
}

TEST(TorchNames, AreKnownOfSomeNetworks) {
  EXPECT_TRUE(has_torch_names("resnet34"));
  EXPECT_TRUE(has_torch_names("vit_base_patch16_224"));
  EXPECT_FALSE(has_torch_names("resnet18_cifar"));
  EXPECT_FALSE(has_torch_names("mnist"));
}

}  // namespace
}  // namespace carillon::testing
