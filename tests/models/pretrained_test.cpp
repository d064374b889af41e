#include "src/models/pretrained.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "kernels/shared/op_types.h"
#include "tests/support/float_arrays.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

/// Returns PyTorch's name of the array `array`.
std::string torch_name(const MakeNetwork& make, const std::string& array) {
  return make(cifar10_images()).torch_names.at(array);
}

TEST(TorchNames, AreThoseOfTorchvisionsResNets) {
  EXPECT_EQ(torch_name(resnet18_network, "stem/weights"), "conv1.weight");
  EXPECT_EQ(torch_name(resnet18_network, "stem/norm/moving_variance"), "bn1.running_var");
  EXPECT_EQ(torch_name(resnet50_network, "stage1/block1/conv1/weights"), "layer1.0.conv1.weight");
  EXPECT_EQ(torch_name(resnet50_network, "stage3/block6/conv3/norm/gamma"), "layer3.5.bn3.weight");
  EXPECT_EQ(torch_name(resnet152_network, "stage3/block36/conv2/norm/beta"), "layer3.35.bn2.bias");
  EXPECT_EQ(torch_name(resnet50_network, "stage2/block1/projection/weights"), "layer2.0.downsample.0.weight");
  EXPECT_EQ(torch_name(resnet50_network, "stage2/block1/projection/norm/moving_mean"),
            "layer2.0.downsample.1.running_mean");
  EXPECT_EQ(torch_name(resnet50_network, "logits/weights"), "fc.weight");
  EXPECT_EQ(torch_name(resnet50_network, "logits/biases"), "fc.bias");
}

TEST(TorchNames, AreThoseOfTimmsNetworks) {
  EXPECT_EQ(torch_name(convnext_tiny_network, "average/norm/gamma"), "head.norm.weight");
  EXPECT_EQ(torch_name(convnext_tiny_network, "stage2/downsample/norm/gamma"), "stages.1.downsample.0.weight");
  EXPECT_EQ(torch_name(convnext_base_network, "stage3/block27/scale/gamma"), "stages.2.blocks.26.gamma");
  EXPECT_EQ(torch_name(convnext_tiny_network, "stage1/block1/depthwise/biases"), "stages.0.blocks.0.conv_dw.bias");
  EXPECT_EQ(torch_name(vit_small_patch16_224_network, "tokens/class"), "cls_token");
  EXPECT_EQ(torch_name(vit_small_patch16_224_network, "block12/attention/qkv/weights"), "blocks.11.attn.qkv.weight");
}

TEST(TorchNames, AreInTheDescriptionsOfNetworksOfTorchvisionAndTimm) {
  const Network network = resnet34_network(cifar10_images());
  EXPECT_EQ(read_description(description_text(network), op_types()).torch_names, network.torch_names);
  EXPECT_TRUE(resnet18_cifar_network(cifar10_images()).torch_names.empty());
  EXPECT_TRUE(mnist_network(mnist_images()).torch_names.empty());
}

TEST(TorchNames, AreRequiredOfEachArray) {
  const TorchFamily family{.stage = "", .block = "", .layers = {}};
  EXPECT_THROW(with_torch_names(mnist_network(mnist_images()), family), Error);
}

std::vector<float> floats_of(const std::string& line) {
  std::istringstream words(line);
  std::vector<float> values;
  for (float value = 0.0f; words >> value;) values.push_back(value);
  return values;
}

TEST(PositionGrid, IsResizedAsByTimm) {
  std::ifstream file(CARILLON_TEST_SAMPLES "/position_grids.txt");
  int cases = 0;
  std::int64_t side = 0, new_side = 0, channels = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream(line) >> side >> new_side >> channels;
    std::string positions, resized;
    std::getline(file, positions);
    std::getline(file, resized);
    SCOPED_TRACE(line);
    const std::vector<std::int64_t> from{1, 1 + side * side, channels}, to{1, 1 + new_side * new_side, channels};
    ASSERT_TRUE(are_position_grids(from, to));
    expect_near(resized_positions(floats_of(positions), from, to), floats_of(resized), 1e-6);
  }
  EXPECT_EQ(cases, 5);
}

TEST(PositionGrid, IsSquareAndKeepsItsChannels) {
  EXPECT_TRUE(are_position_grids({1, 5, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, 5, 3}, {1, 17, 4}));
  EXPECT_FALSE(are_position_grids({1, 5, 3}, {1, 16, 3}));
  EXPECT_FALSE(are_position_grids({1, 4, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, 1, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, -3, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({5, 3}, {1, 17, 3}));
  EXPECT_TRUE(are_position_grids({1, 1 + 256 * 256, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, 1 + 257 * 257, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, std::numeric_limits<std::int64_t>::max(), 0}, {1, 17, 0}));
}

}  // namespace
}  // namespace carillon::testing
