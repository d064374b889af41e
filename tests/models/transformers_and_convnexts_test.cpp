// Tests of vision transformers and ConvNeXts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "carillon/core/error.h"
#include "tests/models/variables.h"

namespace carillon::testing {
namespace {

std::map<std::string, Shape> output_shapes(const BuiltNetwork& built) {
  std::map<std::string, Shape> shapes;
  for (const Graph::Node& node : built.graph.nodes()) shapes[node.name] = built.graph.shape({node.outputs.front()});
  return shapes;
}

/// Returns the multiply-adds for one image, in 10^9.
double giga_multiply_adds(MakeNetwork make) {
  const BuiltNetwork built = build_network(make(imagenet_images), {.batch_size = 1, .purpose = Purpose::evaluation});
  return static_cast<double>(multiply_adds(built.graph)) / 1e9;
}

TEST(VisionTransformers, HaveTheCountsTheirHeadersState) {
  EXPECT_EQ(element_count(variables(vit_tiny_patch16_224_network(imagenet_images))), 5717416);
  EXPECT_EQ(element_count(variables(vit_small_patch16_224_network(imagenet_images))), 22050664);
  EXPECT_EQ(element_count(variables(vit_base_patch16_224_network(imagenet_images))), 86567656);
  const NetworkSettings cifar{.image = {.height = 32, .width = 32, .channels = 3}, .outputs = 10};
  EXPECT_EQ(element_count(variables(vit_tiny_patch4_32_network(cifar))), 5362762);
  EXPECT_NEAR(giga_multiply_adds(vit_tiny_patch16_224_network), 1.075, 5e-4);
  EXPECT_NEAR(giga_multiply_adds(vit_small_patch16_224_network), 4.241, 5e-4);
  EXPECT_NEAR(giga_multiply_adds(vit_base_patch16_224_network), 16.849, 5e-4);
}

/// With --init-exclude 'logits/*', a run trains only the last layer from the start. So exactly the last layer must have
/// this name.
TEST(NetworksWithTrainedWeights, HaveOnlyTheLastLayerInLogits) {
  for (const MakeNetwork make : {resnet18_network, convnext_tiny_network, vit_tiny_patch16_224_network}) {
    std::vector<std::string> names;
    for (const auto& [name, variable] : variables(make(imagenet_images))) {
      if (name.starts_with("logits/")) names.push_back(name);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"logits/biases", "logits/weights"}));
  }
}

TEST(VisionTransformers, HaveTheShapesOfTheirHeader) {
  const BuiltNetwork built = build_network(vit_tiny_patch16_224_network(imagenet_images), {.batch_size = 2});
  std::map<std::string, Shape> shapes = output_shapes(built);
  EXPECT_EQ(shapes["patches"], (Shape{2, 14, 14, 192}));
  EXPECT_EQ(shapes["tokens"], (Shape{2, 197, 192}));
  EXPECT_EQ(shapes["block1/attention/qkv"], (Shape{2, 197, 576}));
  EXPECT_EQ(shapes["block12/mlp/gelu"], (Shape{2, 197, 768}));
  EXPECT_EQ(shapes["norm"], (Shape{2, 192}));
  EXPECT_FALSE(shapes.contains("block13/norm1"));
  EXPECT_EQ(built.graph.shape(built.output), (Shape{2, 1000}));
}

TEST(VisionTransformers, HavePositionsForTheImage) {
  const NetworkSettings settings{.image = {.height = 32, .width = 48, .channels = 3}, .outputs = 10};
  EXPECT_EQ(variables(vit_tiny_patch16_224_network(settings)).at("tokens/positions").shape, (Shape{1, 7, 192}));
}

TEST(VisionTransformers, RefuseImagesThatAreNotWholePatchesOrHaveNoColours) {
  NetworkSettings settings{.image = {.height = 224, .width = 232, .channels = 3}, .outputs = 10};
  EXPECT_THROW(vit_tiny_patch16_224_network(settings), Error);
  EXPECT_NO_THROW(vit_tiny_patch4_32_network(settings));
  settings.image.width = 234;
  EXPECT_THROW(vit_tiny_patch4_32_network(settings), Error);
  settings.image = {.height = 224, .width = 224, .channels = 1};
  EXPECT_THROW(vit_tiny_patch16_224_network(settings), Error);
}

TEST(VisionTransformers, StochasticDepthSkipsBothBranchesOfAllBlocksExceptTheFirst) {
  const NetworkSettings settings{.image = imagenet_images.image, .outputs = 10, .drop_path = 0.1f};
  const BuiltNetwork built = build_network(vit_tiny_patch16_224_network(settings), {.batch_size = 1});
  const auto count = std::ranges::count_if(
      built.graph.nodes(), [](const Graph::Node& node) { return node.definition->type() == "drop_path"; });
  EXPECT_EQ(count, 2 * 11);
}

TEST(ConvNexts, HaveTheCountsTheirHeadersState) {
  EXPECT_EQ(element_count(variables(convnext_tiny_network(imagenet_images))), 28589128);
  EXPECT_EQ(element_count(variables(convnext_small_network(imagenet_images))), 50223688);
  EXPECT_EQ(element_count(variables(convnext_base_network(imagenet_images))), 88591464);
  EXPECT_NEAR(giga_multiply_adds(convnext_tiny_network), 4.456, 5e-4);
  EXPECT_NEAR(giga_multiply_adds(convnext_small_network), 8.684, 5e-4);
  EXPECT_NEAR(giga_multiply_adds(convnext_base_network), 15.355, 5e-4);
}

TEST(ConvNexts, HaveTheShapesOfTheirHeader) {
  const BuiltNetwork built = build_network(convnext_tiny_network(imagenet_images), {.batch_size = 2});
  std::map<std::string, Shape> shapes = output_shapes(built);
  EXPECT_EQ(shapes["stem/norm"], (Shape{2, 56, 56, 96}));
  EXPECT_EQ(shapes["stage1/block3/sum"], (Shape{2, 56, 56, 96}));
  EXPECT_EQ(shapes["stage2/downsample"], (Shape{2, 28, 28, 192}));
  EXPECT_EQ(shapes["stage3/block9/expand"], (Shape{2, 14, 14, 1536}));
  EXPECT_EQ(shapes["stage4/block3/sum"], (Shape{2, 7, 7, 768}));
  EXPECT_EQ(built.graph.shape(built.output), (Shape{2, 1000}));
}

}  // namespace
}  // namespace carillon::testing
