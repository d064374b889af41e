#include "carillon/models/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "carillon/core/error.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "src/device/cpu_device.h"
#include "src/graph/executable.h"
#include "tests/models/variables.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

void expect_variable(const ParameterSpec& spec, const Shape& shape, float stddev_or_value, float l2_factor) {
  EXPECT_EQ(spec.shape, shape) << spec.name;
  EXPECT_FLOAT_EQ(spec.initializer.value, stddev_or_value) << spec.name;
  EXPECT_EQ(spec.initializer.kind == Initializer::Kind::truncated_normal, spec.name.ends_with("/weights")) << spec.name;
  EXPECT_FLOAT_EQ(spec.l2_factor, l2_factor) << spec.name;
}

TEST(Models, MnistIsTheReferences) {
  auto v = variables(mnist_network(mnist_images({.regularization = 0.0001f})));
  EXPECT_EQ(element_count(v), 397510);
  EXPECT_EQ(v.size(), 4u);
  expect_variable(v["layer1/weights"], {784, 500}, 0.1f, 0.0001f);
  expect_variable(v["layer1/biases"], {500}, 0.0f, 0.0f);
  expect_variable(v["layer2/weights"], {500, 10}, 0.1f, 0.0001f);
  expect_variable(v["layer2/biases"], {10}, 0.0f, 0.0f);
}

TEST(Models, Cifar10IsTheTutorials) {
  auto v = variables(cifar10_network(cifar10_images({.regularization = 0.004f})));
  EXPECT_EQ(element_count(v), 1068298);
  EXPECT_EQ(v.size(), 10u);
  expect_variable(v["conv1/weights"], {5, 5, 3, 64}, 0.05f, 0.0f);
  expect_variable(v["conv1/biases"], {64}, 0.0f, 0.0f);
  expect_variable(v["conv2/weights"], {5, 5, 64, 64}, 0.05f, 0.0f);
  expect_variable(v["conv2/biases"], {64}, 0.1f, 0.0f);
  expect_variable(v["local3/weights"], {2304, 384}, 0.04f, 0.004f);
  expect_variable(v["local3/biases"], {384}, 0.1f, 0.0f);
  expect_variable(v["local4/weights"], {384, 192}, 0.04f, 0.004f);
  expect_variable(v["local4/biases"], {192}, 0.1f, 0.0f);
  expect_variable(v["softmax_linear/weights"], {192, 10}, 1.0f / 192.0f, 0.0f);
  expect_variable(v["softmax_linear/biases"], {10}, 0.0f, 0.0f);
}

TEST(Models, LenetHasTheCountItsHeaderStates) {
  EXPECT_EQ(element_count(variables(lenet_network(mnist_images()))), 1663370);
}

TEST(Models, Vgg7HasTheCountItsHeaderStates) {
  EXPECT_EQ(element_count(variables(vgg7_network(mnist_images()))), 288170);
}

TEST(Models, AirbenchHasTheCountsItsHeadersState) {
  EXPECT_EQ(element_count(variables(airbench94_network(cifar10_images()))), 1971640);
  EXPECT_EQ(element_count(variables(airbench96_network(cifar10_images()))), 9915704);
}

TEST(Models, OfAirbenchOnlyWhiteningWeightsDoNotTrainAndOnlyInnerConvolutionsBeginAsTheIdentity) {
  for (const MakeNetwork make : {airbench94_network, airbench96_network}) {
    for (const auto& [name, spec] : variables(make(cifar10_images({.regularization = 0.5f})))) {
      const bool is_inner = name.starts_with("group") && name.ends_with("/weights");
      EXPECT_EQ(spec.trains, name != "whiten/weights") << name;
      EXPECT_EQ(spec.initializer.dirac, is_inner) << name;
      EXPECT_EQ(spec.l2_factor, is_inner || name == "logits/weights" ? 0.5f : 0.0f) << name;
      EXPECT_FALSE(name.ends_with("/gamma"));
    }
  }
}

TEST(Models, MultiplicationsAreCountedFromTheGraph) {
  const auto count = [](const Network& network) {
    return multiply_adds(build_network(network, {.batch_size = 3, .purpose = Purpose::evaluation}).graph);
  };
  EXPECT_EQ(count(mnist_network(mnist_images())), 784 * 500 + 500 * 10);
  EXPECT_EQ(count(lenet_network(mnist_images())),
            28 * 28 * 25 * 32 + 14 * 14 * 25 * 32 * 64 + 7 * 7 * 64 * 512 + 512 * 10);
  EXPECT_EQ(count(vgg7_network(mnist_images())),
            9 * (28 * 28 * (32 + 32 * 32) + 14 * 14 * (32 * 64 + 64 * 64) + 7 * 7 * (64 * 128 + 128 * 128)) + 128 * 10);
  EXPECT_NEAR(static_cast<double>(count(resnet9_network(cifar10_images()))), 379e6, 1e6);
  EXPECT_NEAR(static_cast<double>(count(resnet18_cifar_network(cifar10_images()))), 555e6, 2e6);
  EXPECT_NEAR(static_cast<double>(count(resnet18_network(imagenet_images))), 1.814e9, 1e6);
  EXPECT_NEAR(static_cast<double>(count(resnet34_network(imagenet_images))), 3.664e9, 1e6);
  EXPECT_NEAR(static_cast<double>(count(resnet50_network(imagenet_images))), 4.089e9, 1e6);
  EXPECT_NEAR(static_cast<double>(count(resnet101_network(imagenet_images))), 7.801e9, 1e6);
  EXPECT_NEAR(static_cast<double>(count(resnet152_network(imagenet_images))), 11.514e9, 1e6);
  EXPECT_EQ(count(airbench94_network(cifar10_images())), 118147360);
  EXPECT_NEAR(static_cast<double>(count(airbench96_network(cifar10_images()))), 452e6, 1e6);
}

TEST(Models, Vgg7TakesSquareImagesOfAnyColours) {
  const auto made = [](std::int64_t height, std::int64_t width, std::int64_t channels) {
    return vgg7_network({.image = {.height = height, .width = width, .channels = channels}, .outputs = 7});
  };
  const BuiltNetwork built = build_network(made(4, 4, 3), {.batch_size = 2});
  EXPECT_EQ(built.graph.shape(built.output), (Shape{2, 7}));
  EXPECT_THROW(made(3, 3, 1), Error);
  EXPECT_THROW(made(28, 20, 1), Error);
}

TEST(Models, ClassesAndImagesAreWhatTheDataSay) {
  NetworkSettings settings{.image = {.height = 20, .width = 30, .channels = 3}, .outputs = 7};
  for (const MakeNetwork make : {mnist_network, lenet_network}) {
    const BuiltNetwork built = build_network(make(settings), {.batch_size = 2});
    EXPECT_EQ(built.graph.shape(built.output), (Shape{2, 7}));
    EXPECT_EQ(built.graph.shape(built.input), (Shape{2, 20, 30, 3}));
  }
}

/// Lists the ops that run in training. " relu" marks an op into which a pass has fused a ReLU.
TEST(Models, Cifar10RunsTheseOps) {
  const BuiltNetwork built = build_network(cifar10_network(cifar10_images()), ten_classes(), {.batch_size = 2});
  std::vector<std::string> ops;
  for (const Graph::Node& node : built.graph.nodes()) {
    ops.push_back(node.name + (node.definition->backward_needs().outputs ? " relu" : ""));
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"input", "conv1", "pool1 relu", "norm1", "conv2 relu", "norm2", "pool2",
                                           "local3 relu", "local4 relu", "softmax_linear", "cross_entropy"}));
}

/// In version 0.1.0, the index of a variable in its network selected its random numbers. These networks must keep these
/// random numbers.
TEST(Models, VariablesOfTheFirstNetworksKeepTheirDraws) {
  for (const Network& network :
       {mnist_network(mnist_images()), lenet_network(mnist_images()), cifar10_network(cifar10_images())}) {
    const std::vector<ParameterSpec> specs = build_network(network, {}).graph.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].initializer.kind == Initializer::Kind::truncated_normal) {
        EXPECT_EQ(specs[i].initializer.number, static_cast<int>(i)) << network.name << " " << specs[i].name;
      }
    }
  }
}

TEST(Models, MnistSkipsZerosWhereTheRecordsAreSparse) {
  for (const float density : {0.19f, 1.0f}) {
    CpuDevice device(1);
    const Graph graph = build_network(mnist_network(mnist_images({.density = density})), {.batch_size = 2}).graph;
    ParameterStore parameters(
        graph.parameters(), device,
        ParameterMemory{.gradients = device.allocate(gradient_bytes(ParameterLayout(graph.parameters())))});
    BufferStore buffers(graph.buffers(), device);
    const StepInputs step;
    const Executable executable(graph, {device, parameters, buffers, step}, true, {});
    EXPECT_EQ(device.workspace() != nullptr, density < 1.0f);  // the workspace holds lists of non-zero values
  }
}

TEST(Models, TheirConvolutionsByWinogradsMethodAreNamed) {
  using Names = std::vector<std::string>;
  const auto names = [](const Network& network, ConvolutionMethod method) {
    return winograd_convolutions(build_network(network, {.batch_size = 2}).graph, method);
  };
  const Network cifar10 = cifar10_network(cifar10_images()), lenet = lenet_network(mnist_images());
  EXPECT_EQ(names(cifar10, ConvolutionMethod::automatic), (Names{"conv1", "conv2"}));
  EXPECT_EQ(names(cifar10, ConvolutionMethod::direct), Names{});
  // conv1 has one input channel, so Winograd's method would save little.
  EXPECT_EQ(names(lenet, ConvolutionMethod::automatic), Names{"conv2"});
  EXPECT_EQ(names(lenet, ConvolutionMethod::winograd), (Names{"conv1", "conv2"}));
  EXPECT_EQ(names(mnist_network(mnist_images()), ConvolutionMethod::winograd), Names{});
}

TEST(Models, AValueThatNobodyReadsIsRefused) {
  const Network network = make_network("loose", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Value x = image_input(graph, "input", {.sample = {28, 28, 1}});
    dense(graph, "loose", x, {.units = 3});
    return dense(graph, "logits", x, {.units = 10});
  });
  EXPECT_THROW(build_network(network, {}), Error);
}

TEST(Models, OnlyTrainingHasALossAndOnlyASummaryItsLayers) {
  const Network network = cifar10_network(cifar10_images({.distort = true}));
  EXPECT_GE(build_network(network, ten_classes(), {}).loss.index, 0);
  EXPECT_EQ(build_network(network, ten_classes(), {.purpose = Purpose::evaluation}).loss.index, -1);
  EXPECT_EQ(build_network(network, {.purpose = Purpose::summary}).layers.size(), 5u);
}

TEST(Models, MixImagesAfterTheFirstOpInTrainingAndOnlyIfRequested) {
  const auto second_op = [](const Network& network, Purpose purpose) {
    const BuiltNetwork built = build_network(network, {.batch_size = 2, .purpose = purpose});
    const Graph::Node& second = built.graph.nodes().at(1);
    const bool mixes = second.definition->type() == "mix_images";
    EXPECT_EQ(built.input.index, mixes ? second.outputs.front() : built.graph.nodes().front().outputs.front());
    return std::string(second.definition->type());
  };
  for (Network network : {mnist_network(mnist_images()), cifar10_network(cifar10_images()),
                          airbench94_network(cifar10_images({.distort = true, .record_count = 9}))}) {
    EXPECT_NE(second_op(network, Purpose::training), "mix_images");
    network.mixing.cutmix = 1.0;
    EXPECT_EQ(second_op(network, Purpose::training), "mix_images");
    EXPECT_EQ(second_op(network, Purpose::summary), "mix_images");
    EXPECT_NE(second_op(network, Purpose::evaluation), "mix_images");
  }
}

std::vector<std::string> first_ops(const Network& network, Purpose purpose, std::size_t count) {
  const BuiltNetwork built = build_network(network, {.batch_size = 2, .purpose = purpose});
  std::vector<std::string> types;
  for (std::size_t i = 0; i < count; ++i) types.emplace_back(built.graph.nodes().at(i).definition->type());
  EXPECT_EQ(built.input.index, built.graph.nodes().at(count - 1).outputs.front());
  return types;
}

TEST(Models, WarpImagesBeforeMixingInTrainingAndOnlyIfRequested) {
  using Types = std::vector<std::string>;
  Network network = vgg7_network(mnist_images());
  EXPECT_EQ(first_ops(network, Purpose::training, 1), Types{"image_input"});
  network.mixing.mixup = 1.0;
  const WarpSettings warps[] = {{.rotation = 1.0}, {.zoom = 0.1}, {.shift = 0.1}};
  for (const WarpSettings& warp : warps) {
    network.warp = warp;
    for (const Purpose purpose : {Purpose::training, Purpose::summary}) {
      EXPECT_EQ(first_ops(network, purpose, 2), (Types{"image_input", "mix_images"}));
    }
    EXPECT_EQ(first_ops(network, Purpose::evaluation, 1), Types{"image_input"});
  }
  network.warp = {.zoom = 1.0};  // the network rejects a warp with this zoom
  for (const Purpose purpose : {Purpose::training, Purpose::summary}) {
    EXPECT_THROW(build_network(network, {.purpose = purpose}), Error);
  }
  EXPECT_NO_THROW(build_network(network, {.purpose = Purpose::evaluation}));
}

TEST(Models, BatchNormsAreFrozenByTheirVariablesOrAllTogether) {
  const auto kept = [](bool all, const std::vector<std::string>& patterns) {
    Network network = normalized_network();
    network.freeze_batch_norm = all;
    network.frozen_variables = patterns;
    std::vector<std::vector<std::string>> of_purposes;
    for (const Purpose purpose : {Purpose::training, Purpose::evaluation, Purpose::summary}) {
      const BuiltNetwork built = build_network(network, {.batch_size = 2, .purpose = purpose});
      std::vector<std::string>& names = of_purposes.emplace_back();
      for (const BufferSpec& spec : built.graph.buffers()) {
        if (spec.across_ranks == AcrossRanks::equal) names.push_back(spec.name);
      }
    }
    EXPECT_EQ(of_purposes[0], of_purposes[1]);
    EXPECT_EQ(of_purposes[0], of_purposes[2]);
    return of_purposes[0];
  };
  const std::vector<std::string> of_stem{"stem/norm/moving_mean", "stem/norm/moving_variance"};
  EXPECT_EQ(kept(false, {}).size(), 0u);
  EXPECT_EQ(kept(true, {}).size(), 4u);
  EXPECT_EQ(kept(false, {"stem/*"}), of_stem);
  EXPECT_EQ(kept(false, {"stem/norm/beta", "*/gamma"}), of_stem);
  EXPECT_EQ(kept(false, {"*/gamma", "*/weights"}).size(), 0u);
  Network without = branching_network();
  without.frozen_variables = {"*"};
  EXPECT_NO_THROW(build_network(without, {.batch_size = 2}));
  without.freeze_batch_norm = true;
  try {
    build_network(without, {.batch_size = 2});
    ADD_FAILURE() << "a network without batch norms was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--freeze-batch-norm: the network branching has no batch norm"));
  }
}

TEST(Models, L2LeavesExcludedVariablesOut) {
  Network network = mnist_network(mnist_images({.regularization = 0.5f}));
  network.l2_exclude = {"layer2/*", "none"};
  auto v = variables(network);
  EXPECT_EQ(v["layer1/weights"].l2_factor, 0.5f);
  EXPECT_EQ(v["layer2/weights"].l2_factor, 0.0f);
}

/// Returns a network with logits that show how images are mixed. Each image has one white pixel, at the index of its
/// class.
Network telling_network(const MixingSettings& mixing) {
  Network network = make_network("telling", {.image = {1, 1, 10}}, [](Graph& graph) {
    const Value x = image_input(graph, "input", {.sample = {1, 1, 10}, .scale = 1.0f / 255.0f});
    return dense(graph, "logits", x, {.units = 10, .biases = std::nullopt});
  });
  network.mixing = mixing;
  return network;
}

/// The logits are 20 p, with the weights p of the mixed images. If the labels are mixed with the same weights, the loss
/// is -sum(p * log softmax(20 p)).
TEST(Models, ImagesAndLabelsAreMixedAlike) {
  for (const std::uint64_t position : {0, 7, 1000}) {
    const MixingSettings mixing{.mixup = 1.0, .seed = 5};
    const BuiltNetwork built = build_network(telling_network(mixing), ten_classes(), {.batch_size = 2});
    CpuDevice device(1);
    ParameterStore parameters(
        built.graph.parameters(), device,
        ParameterMemory{.gradients = device.allocate(gradient_bytes(ParameterLayout(built.graph.parameters())))});
    BufferStore buffers(built.graph.buffers(), device);
    for (std::size_t i = 0; i < 100; ++i) parameters.value(0).floats()[i] = i % 11 == 0 ? 20.0f : 0.0f;
    const std::uint8_t first[10] = {0, 0, 255}, second[10] = {0, 0, 0, 0, 0, 255};
    const std::vector<const std::uint8_t*> images{first, second};
    std::vector<std::int32_t> labels{2, 5};
    StepInputs step;
    step.batch = {.images = images, .first_position = position};
    step.targets = reinterpret_cast<std::byte*>(labels.data());
    Executable executable(built.graph, {device, parameters, buffers, step}, true, {built.input, built.loss});
    executable.forward(device.stream());
    const double own = executable.tensor(built.input).floats()[2];  // weight of image 0 in mixed image 0
    const double sum = std::exp(20.0 * own) + std::exp(20.0 * (1.0 - own)) + 8.0;
    const double expected = std::log(sum) - 20.0 * (own * own + (1.0 - own) * (1.0 - own));
    EXPECT_TRUE(own > 0.0 && own < 1.0) << own;
    EXPECT_NEAR(executable.tensor(built.loss).floats()[0], expected, 1e-5);
  }
}

}  // namespace
}  // namespace carillon::testing
