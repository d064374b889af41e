// The networks of the programs, for the image shapes of their datasets, and small networks for tests.
#pragma once

#include <vector>

#include "carillon/models/networks.h"
#include "kernels/attention/attention.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layout/layout.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/tokens/tokens.h"
#include "kernels/values/values.h"
#include "src/models/layers.h"
#include "src/tasks/classification.h"

namespace carillon::testing {

inline NetworkSettings mnist_images(NetworkSettings settings = {}) {
  settings.image = {.height = 28, .width = 28, .channels = 1};
  settings.outputs = 10;
  return settings;
}

inline NetworkSettings cifar10_images(NetworkSettings settings = {}) {
  settings.image = {.height = 32, .width = 32, .channels = 3};
  settings.outputs = 10;
  return settings;
}

/// Returns a network with a residual block: two ops read one value, and another op joins their outputs.
inline Network branching_network() {
  return make_network("branching", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights{Initializer::Kind::truncated_normal, 0.1f};
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = relu(graph, "stem/relu", dense(graph, "stem", x, {.units = 24, .weights = weights}));
    Value y = relu(graph, "a/relu", dense(graph, "a", x, {.units = 24, .weights = weights, .l2_factor = 1e-4f}));
    y = dense(graph, "b", y, {.units = 24, .weights = weights});
    x = relu(graph, "sum/relu", add(graph, "sum", x, y));
    return dense(graph, "logits", x, {.units = 10, .weights = weights});
  });
}

/// Adds an image_input for MNIST. It normalises the images. A training also pads, crops and mirrors them.
inline Value normalized_mnist_input(Graph& graph) {
  return image_input(graph, "input",
                     {.sample = {28, 28, 1},
                      .values = PixelValues::normalized,
                      .mean = {0.5f},
                      .padding = 2,
                      .mirroring = ImageMirroring::random});
}

/// Returns a network with a residual block of convolutions without biases, each followed by a batch norm.
inline Network normalized_network() {
  return make_network("normalized", {.image = {28, 28, 1}, .distort = true, .seed = 3}, [](Graph& graph) {
    Value x = normalized_mnist_input(graph);
    x = conv_norm_relu(graph, "stem", x, {.filters = 8, .stride = 2});
    const Value y = conv_norm(graph, "branch", x, {.filters = 8});
    x = gelu(graph, "sum/gelu", add(graph, "sum", y, x));
    x = global_avg_pool(graph, "average", x);
    return dense(graph, "logits", x, {.units = 10, .weights = fan_in_uniform(8), .biases = std::nullopt});
  });
}

/// Returns a network with a residual block. The graph's passes fuse a ReLU into one of its batch norms. They fuse an
/// addition, with the ReLU after it, into a second batch norm. They fuse no op into the other batch norms.
inline Network residual_network() {
  return make_network("residual", {.image = {28, 28, 1}, .distort = true, .seed = 3}, [](Graph& graph) {
    Value x = normalized_mnist_input(graph);
    x = conv_norm(graph, "stem", x, {.filters = 8, .stride = 2});
    Value y = conv_norm_relu(graph, "a", x, {.filters = 12, .stride = 2});
    y = conv_norm(graph, "b", y, {.filters = 12});
    x = end_of_residual_block(graph, "block", x, y, ConvNormParams{.filters = 12, .kernel = 1, .stride = 2});
    x = global_avg_pool(graph, "average", x);
    return dense(graph, "logits", x, {.units = 10, .weights = fan_in_uniform(12), .biases = std::nullopt});
  });
}

/// Returns a network of residual blocks that contain layer norms, attention, a depthwise convolution and a layer scale.
inline Network attending_network() {
  return make_network("attending", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights = fan_in_uniform(16);
    const auto layer = [&](const std::string& name, Value x, std::int64_t units) {
      return dense(graph, name, x, {.units = units, .weights = weights, .per_position = true});
    };
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = conv2d(graph, "patches", x,
               {.filters = 16, .kernel = 7, .stride = 7, .padding = Padding::valid, .weights = weights});
    Value y = depthwise_conv2d(graph, "depthwise", layer_norm(graph, "norm1", x, {}),
                               {.kernel = 3, .padding = Padding::symmetric(1), .weights = weights});
    x = add(graph, "sum1", scale_channels(graph, "scale", y, {.initial_factor = 0.5f}), x);
    x = embed_tokens(graph, "tokens", x, {.class_token = weights, .positions = weights});
    y = attention(graph, "attention", layer("qkv", layer_norm(graph, "norm2", x, {}), 48), {.heads = 2});
    x = add(graph, "sum2", gelu(graph, "gelu", layer("project", y, 16)), x);
    return dense(graph, "logits", first_token(graph, "class", x), {.units = 10, .weights = weights});
  });
}

/// Returns a network with ops that have several outputs, with constants, and with ops that broadcast an input. No op
/// reads one of the outputs.
inline Network parted_network() {
  return make_network("parted", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights = fan_in_uniform(16);
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = conv2d(graph, "patches", x,
               {.filters = 20, .kernel = 7, .stride = 7, .padding = Padding::valid, .weights = weights});
    const std::vector<Value> parts = split(graph, "channels", x, {.sizes = {8, 4, 8}});
    const std::vector<Value> rows = split(graph, "rows", silu(graph, "silu", parts[0]), {.axis = 1, .sizes = {2, 2}});
    const std::vector<Value> other_rows = split(graph, "other_rows", parts[2], {.axis = 1, .sizes = {2, 2}});
    x = add(graph, "sum", add(graph, "first", rows[0], other_rows[1]), rows[1]);  // the shape is [2, 4, 8]
    const Value gate = global_avg_pool(graph, "average", rows[1]);
    x = multiply(graph, "gated", x, dense(graph, "gate", gate, {.units = 8, .weights = weights}));
    const Value places = constant(graph, "places", {.shape = {4, 1}, .values = {-0.5f, 0.25f, 0.5f, 1.0f}});
    x = add(graph, "shifted", x, multiply(graph, "factor", places, constant(graph, "two", {.values = {2.0f}})));
    x = add(graph, "images", constant(graph, "offsets", {.shape = {2, 1, 8}, .values = std::vector(16, 0.125f)}), x);
    return dense(graph, "logits", x, {.units = 10, .weights = weights});
  });
}

/// Returns a network in which some ops share variables with an earlier op. Some share only the weights, and others
/// share the weights and the biases.
inline Network sharing_network() {
  return make_network("sharing", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights = fan_in_uniform(16);
    const auto layer = [&](const std::string& name, Value x) {
      return relu(graph, name + "/relu",
                  dense(graph, name, x, {.units = 16, .weights = weights, .per_position = true}));
    };
    const auto conv = [&](const std::string& name, Value x) {
      return gelu(graph, name + "/gelu", conv2d(graph, name, x, {.filters = 16, .kernel = 3, .weights = weights}));
    };
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = conv2d(graph, "patches", x,
               {.filters = 16, .kernel = 7, .stride = 7, .padding = Padding::valid, .weights = weights});
    x = conv("conv1", layer("a", x));
    graph.share_parameter("b/weights", "a/weights");
    x = add(graph, "sum", layer("b", x), x);
    graph.share_parameter("conv2/weights", "conv1/weights");
    graph.share_parameter("conv2/biases", "conv1/biases");
    x = conv("conv2", x);
    graph.share_parameter("c/weights", "a/weights");
    graph.share_parameter("c/biases", "b/biases");
    x = layer("c", x);
    // A gelu follows each of these dense ops. If the dense op has its own biases, the gelu sums their gradients.
    for (const char* const name : {"d", "e"}) {
      if (*name == 'e') graph.share_parameter("e/weights", "d/weights"), graph.share_parameter("e/biases", "d/biases");
      x = gelu(graph, std::string(name) + "/gelu",
               dense(graph, name, x, {.units = 16, .weights = weights, .per_position = true}));
    }
    return dense(graph, "logits", x, {.units = 10, .weights = weights});
  });
}

/// Returns the branching network. In training, it warps and mixes the samples.
inline Network mixed_network(const MixingSettings& mixing = {.mixup = 0.4, .cutmix = 1.0, .seed = 5}) {
  Network network = branching_network();
  network.name = "mixed";
  network.warp = {.rotation = 10.0, .zoom = 0.1, .shift = 0.1, .seed = 5};
  network.mixing = mixing;
  return network;
}

/// Returns the tasks with which tests train these networks.
inline Task ten_classes() { return classification_task({.classes = 10}); }
inline Task smoothed_classes() { return classification_task({.classes = 10, .label_smoothing = 0.1f}); }
/// Only the normalized network has a loss with label smoothing. So a test of all networks covers losses with and
/// without label smoothing.
inline Task task_of(const Network& network) {
  return network.name == "normalized" ? smoothed_classes() : ten_classes();
}

/// Returns all networks except resnet18, resnet50 and airbench96, which have too many variables for tests that allocate
/// every network. resnet18_cifar and airbench94 contain most of the ops of these three networks.
inline std::vector<Network> all_networks() {
  return {mnist_network(mnist_images()),
          lenet_network(mnist_images()),
          vgg7_network(mnist_images()),
          cifar10_network(cifar10_images()),
          resnet9_network(cifar10_images()),
          resnet18_cifar_network(cifar10_images()),
          airbench94_network(cifar10_images()),
          branching_network(),
          normalized_network(),
          attending_network(),
          mixed_network(),
          parted_network(),
          sharing_network()};
}

}  // namespace carillon::testing
