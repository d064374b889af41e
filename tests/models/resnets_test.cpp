// Tests of the residual networks.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>

#include "carillon/core/error.h"
#include "tests/models/variables.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

TEST(ResNets, HaveTheCountsTheirHeadersState) {
  EXPECT_EQ(element_count(variables(resnet9_network(cifar10_images()))), 6573120);
  EXPECT_EQ(element_count(variables(resnet18_cifar_network(cifar10_images()))), 11173962);
  EXPECT_EQ(element_count(variables(resnet18_network(imagenet_images))), 11689512);
  EXPECT_EQ(element_count(variables(resnet34_network(imagenet_images))), 21797672);
  EXPECT_EQ(element_count(variables(resnet50_network(imagenet_images))), 25557032);
  EXPECT_EQ(element_count(variables(resnet101_network(imagenet_images))), 44549160);
  EXPECT_EQ(element_count(variables(resnet152_network(imagenet_images))), 60192808);
}

/// This network is ResNet-50 v1.5: if a block has a stride, its 3x3 convolution has the stride.
TEST(ResNets, Resnet50HasTheShapesOfItsHeader) {
  const BuiltNetwork built = build_network(resnet50_network(imagenet_images), {.batch_size = 2});
  std::map<std::string, Shape> shapes;
  for (const Graph::Node& node : built.graph.nodes()) shapes[node.name] = built.graph.shape({node.outputs.front()});
  EXPECT_EQ(shapes["stem"], (Shape{2, 112, 112, 64}));
  EXPECT_EQ(shapes["pool"], (Shape{2, 56, 56, 64}));
  EXPECT_EQ(shapes["stage1/block3/conv3/norm"], (Shape{2, 56, 56, 256}));
  EXPECT_EQ(shapes["stage2/block1/conv1"], (Shape{2, 56, 56, 128}));
  EXPECT_EQ(shapes["stage2/block1/conv2"], (Shape{2, 28, 28, 128}));
  EXPECT_EQ(shapes["stage4/block3/conv3/norm"], (Shape{2, 7, 7, 2048}));
  EXPECT_EQ(built.graph.shape(built.output), (Shape{2, 1000}));
}

TEST(ResNets, Resnet18HasTheShapesOfItsHeader) {
  const BuiltNetwork built = build_network(resnet18_network(imagenet_images), {.batch_size = 2});
  std::map<std::string, Shape> shapes;
  for (const Graph::Node& node : built.graph.nodes()) shapes[node.name] = built.graph.shape({node.outputs.front()});
  EXPECT_EQ(shapes["stem"], (Shape{2, 112, 112, 64}));
  EXPECT_EQ(shapes["pool"], (Shape{2, 56, 56, 64}));
  EXPECT_EQ(shapes["stage1/block2/conv2/norm"], (Shape{2, 56, 56, 64}));
  EXPECT_FALSE(shapes.contains("stage1/block1/projection"));
  EXPECT_EQ(shapes["stage2/block1/projection"], (Shape{2, 28, 28, 128}));
  EXPECT_EQ(shapes["stage4/block2/conv2/norm"], (Shape{2, 7, 7, 512}));
  EXPECT_EQ(built.graph.shape(built.output), (Shape{2, 1000}));
}

/// Two ops read a block's input. In bf16, the block's first convolution adds its gradient of this input to the gradient
/// of the other reader, so the graph needs no fork.
TEST(ResNets, ConvolutionsReplaceForksInBf16Training) {
  const auto count = [](Arithmetic arithmetic, Purpose purpose, bool (*is_counted)(const Graph::Node&)) {
    const BuildSettings settings{.batch_size = 1, .arithmetic = arithmetic, .purpose = purpose};
    return std::ranges::count_if(build_network(resnet50_network(imagenet_images), settings).graph.nodes(), is_counted);
  };
  const auto is_fork = [](const Graph::Node& node) { return node.definition->type() == "fork"; };
  const auto adds_gradient = [](const Graph::Node& node) {
    return node.definition->type() == "conv2d" && node.outputs.size() == 2;
  };
  EXPECT_EQ(count(Arithmetic::fp32, Purpose::training, is_fork), 16);
  EXPECT_EQ(count(Arithmetic::bf16, Purpose::training, is_fork), 0);
  EXPECT_EQ(count(Arithmetic::bf16, Purpose::training, adds_gradient), 16);
  EXPECT_EQ(count(Arithmetic::bf16, Purpose::evaluation, adds_gradient), 0);
  EXPECT_EQ(count(Arithmetic::bf16, Purpose::summary, adds_gradient), 0);
}

TEST(ResNets, StochasticDepthSkipsEveryBranchExceptTheFirstAndOnlyInTraining) {
  const auto count = [](const Network& network, Purpose purpose) {
    const BuiltNetwork built = build_network(network, {.batch_size = 1, .purpose = purpose});
    return std::ranges::count_if(built.graph.nodes(), [](const Graph::Node& node) {
      EXPECT_EQ(node.definition->type() == "drop_path", node.name.ends_with("/drop_path")) << node.name;
      return node.definition->type() == "drop_path";
    });
  };
  const NetworkSettings large{.image = imagenet_images.image, .outputs = 10, .drop_path = 0.2f};
  const NetworkSettings small = cifar10_images({.drop_path = 0.2f});
  EXPECT_EQ(count(resnet50_network(large), Purpose::training), 15);
  EXPECT_EQ(count(resnet18_network(large), Purpose::training), 7);
  EXPECT_EQ(count(resnet18_cifar_network(small), Purpose::training), 7);
  EXPECT_EQ(count(resnet9_network(small), Purpose::training), 1);
  EXPECT_EQ(count(resnet50_network(large), Purpose::evaluation), 0);
  EXPECT_EQ(count(resnet50_network(imagenet_images), Purpose::training), 0);
}

TEST(ResNets, Resnet18BeginsWithBlocksThatAreTheIdentityAndResnet18CifarDoesNot) {
  const auto zeros = [](const Network& network) {
    std::vector<std::string> names;
    for (const auto& [name, spec] : variables(network)) {
      if (name.ends_with("/gamma") && spec.initializer.value == 0.0f) names.push_back(name);
    }
    return names;
  };
  const std::vector<std::string> found = zeros(resnet18_network(imagenet_images));
  EXPECT_EQ(found.size(), 8u);
  for (const std::string& name : found) EXPECT_TRUE(name.ends_with("/conv2/norm/gamma")) << name;
  EXPECT_TRUE(zeros(resnet18_cifar_network(cifar10_images())).empty());
}

TEST(ResNets, Resnet50BeginsWithBlocksThatAreTheIdentity) {
  const auto v = variables(resnet50_network(cifar10_images()));
  int zeros = 0;
  for (const auto& [name, spec] : v) {
    if (!name.ends_with("/gamma")) continue;
    EXPECT_EQ(spec.initializer.value, name.ends_with("/conv3/norm/gamma") ? 0.0f : 1.0f) << name;
    zeros += spec.initializer.value == 0.0f ? 1 : 0;
  }
  EXPECT_EQ(zeros, 3 + 4 + 6 + 3);
  const std::vector<float> drawn = initial_values(v.at("stage1/block1/conv2/weights"), 3);
  double squares = 0.0;
  for (const float value : drawn) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(squares / static_cast<double>(drawn.size()), 2.0 / (9 * 64), 2e-2 * 2.0 / (9 * 64));
}

TEST(ResNets, RefuseImagesThatTheyCannotTake) {
  NetworkSettings settings = cifar10_images();
  settings.image.channels = 1;
  EXPECT_THROW(resnet9_network(settings), Error);
  EXPECT_THROW(resnet18_network(settings), Error);
  EXPECT_THROW(resnet18_cifar_network(settings), Error);
  EXPECT_THROW(resnet18_network({.image = {.height = 64, .width = 31, .channels = 3}, .outputs = 10}), Error);
  EXPECT_THROW(resnet50_network(settings), Error);
  EXPECT_THROW(resnet50_network({.image = {.height = 31, .width = 64, .channels = 3}, .outputs = 10}), Error);
  EXPECT_THROW(airbench94_network(settings), Error);
  EXPECT_THROW(airbench96_network({.image = {.height = 11, .width = 11, .channels = 3}, .outputs = 10}), Error);
  EXPECT_THROW(resnet9_network({.image = {.height = 32, .width = 24, .channels = 3}, .outputs = 10}), Error);
}

}  // namespace
}  // namespace carillon::testing
