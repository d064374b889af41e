#include "tests/support/op_cases.h"

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/dropout/dropout.h"
#include "kernels/gather/gather.h"
#include "kernels/image_input/image_input.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layout/layout.h"
#include "kernels/lrn/lrn.h"
#include "kernels/matmul/matmul.h"
#include "kernels/mean_loss/mean_loss.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/tokens/tokens.h"
#include "kernels/values/values.h"
#include "src/graph/passes.h"
#include "src/models/layers.h"

namespace carillon::testing {
namespace {

constexpr std::size_t cifar_bytes = 3072;

/// Adds a target: the labels of the noise batch.
Value labels(OpHarness& harness) { return harness.graph().add_target({.type = DType::i32, .shape = {}}); }

std::vector<OpCase> products() {
  std::vector<OpCase> cases;
  for (const bool relu : {false, true}) {
    const std::string name = relu ? "Relu" : "";
    const auto add = [&](const std::string& op, std::int64_t batch, auto layer) {
      cases.push_back({.name = op + name, .batch = batch, .integers = true, .build = [=](OpHarness& harness) {
                         return relu_if(relu, harness.graph(), layer(harness));
                       }});
    };
    add("Dense", 5, [](OpHarness& h) { return dense(h.graph(), "layer", h.input("x", {5, 7}), {.units = 3}); });
    add("DenseOfImages", 33, [](OpHarness& h) {
      return dense(h.graph(), "layer", h.input("x", {33, 4, 5, 8}), {.units = 129});
    });
    add("DenseOfManySamples", 100, [](OpHarness& h) {
      return dense(h.graph(), "layer", h.input("x", {100, 40}), {.units = 20});
    });
    add("DenseOfPositions", 3, [](OpHarness& h) {
      return dense(h.graph(), "layer", h.input("x", {3, 5, 8}), {.units = 12, .per_position = true});
    });
    add("Conv2d", 3, [](OpHarness& h) {
      return conv2d(h.graph(), "conv", h.input("x", {3, 7, 6, 3}), {.filters = 5, .kernel = 5});
    });
    add("Conv2dWithStride", 2, [](OpHarness& h) {
      return conv2d(h.graph(), "conv", h.input("x", {2, 8, 9, 4}),
                    {.filters = 8, .kernel = 3, .stride = 2, .padding = Padding::valid});
    });
    add("Conv2dOfPatches", 3, [](OpHarness& h) {
      return conv2d(h.graph(), "conv", h.input("x", {3, 8, 12, 3}),
                    {.filters = 8, .kernel = 4, .stride = 4, .padding = Padding::valid});
    });
    add("Conv2dOfPixels", 3, [](OpHarness& h) {
      return conv2d(h.graph(), "conv", h.input("x", {3, 5, 7, 16}), {.filters = 24, .kernel = 1});
    });
  }
  cases.push_back({.name = "Conv2dOfPatchesWithPixelsBetween",
                   .batch = 2,
                   .integers = true,
                   .drops = true,
                   .build = [](OpHarness& h) {
                     const Conv2dParams params{5, 3, 3, Padding::valid, {}, std::nullopt};
                     return conv2d(h.graph(), "conv", h.input("x", {2, 7, 8, 2}), params);
                   }});
  cases.push_back({.name = "Conv2dOfPatchesOfImages",  // images and filters have equal channel counts
                   .batch = 3,
                   .image_bytes = 8 * 16 * 3,
                   .integers = true,
                   .rounds_once = false,
                   .build = [](OpHarness& h) {
                     const Value x = image_input(h.graph(), "input", {.sample = {8, 16, 3}, .scale = 1.0f / 256.0f});
                     return conv2d(h.graph(), "conv", x,
                                   {.filters = 24, .kernel = 8, .stride = 8, .padding = Padding::valid});
                   }});
  for (const std::int64_t channels : {5, 36}) {
    const std::string name = std::to_string(channels);
    cases.push_back({.name = "DepthwiseConv2d" + name, .batch = 3, .integers = true, .build = [=](OpHarness& h) {
                       return depthwise_conv2d(h.graph(), "conv", h.input("x", {3, 7, 6, channels}), {.kernel = 7});
                     }});
    cases.push_back(
        {.name = "DepthwiseConv2dWithStride" + name, .batch = 3, .integers = true, .build = [=](OpHarness& h) {
           return depthwise_conv2d(
               h.graph(), "conv", h.input("x", {3, 9, 8, channels}),
               {.kernel = 3, .stride = 2, .padding = Padding::symmetric(1), .biases = std::nullopt});
         }});
  }
  for (const bool has_biases : {true, false}) {  // on a GPU, the product adds the other input
    cases.push_back({.name = has_biases ? "DenseAndSum" : "DenseWithoutBiasesAndSum",
                     .batch = 3,
                     .integers = true,
                     .rounds_once = false,
                     .build = [=](OpHarness& h) {
                       DenseParams params{.units = 16, .per_position = true};
                       if (!has_biases) params.biases = std::nullopt;
                       const Value z = h.input("z", {3, 5, 16}), x = h.input("x", {3, 5, 8});
                       return add(h.graph(), "sum", z, dense(h.graph(), "layer", x, params));
                     }});
  }
  cases.push_back({.name = "DenseWithoutBiases", .batch = 5, .integers = true, .build = [](OpHarness& h) {
                     return dense(h.graph(), "layer", h.input("x", {5, 8}), {.units = 16, .biases = std::nullopt});
                   }});
  cases.push_back({.name = "Conv2dWithoutBiases", .batch = 2, .integers = true, .build = [](OpHarness& h) {
                     const Conv2dParams params{3, 3, 2, Padding::symmetric(1), {}, std::nullopt};
                     return conv2d(h.graph(), "conv", h.input("x", {2, 8, 6, 4}), params);
                   }});
  cases.push_back({.name = "Whitening", .batch = 2, .integers = true, .build = [](OpHarness& h) {
                     return conv2d(h.graph(), "conv", h.input("x", {2, 9, 9, 3}),
                                   {.filters = 24, .kernel = 2, .padding = Padding::valid});
                   }});
  for (const std::int64_t groups : {2, 8}) {
    cases.push_back({.name = "Conv2dOf" + std::to_string(groups) + "Groups",
                     .batch = 3,
                     .integers = true,
                     .build = [=](OpHarness& h) {
                       return conv2d(h.graph(), "conv", h.input("x", {3, 7, 6, 8}),
                                     {.filters = 16, .kernel = 3, .stride = 2, .groups = groups});
                     }});
  }
  cases.push_back(
      {.name = "Conv2dWithDilation", .batch = 3, .integers = true, .build = [](OpHarness& h) {
         return conv2d(h.graph(), "conv", h.input("x", {3, 9, 8, 4}), {.filters = 8, .kernel = 3, .dilation = 2});
       }});
  cases.push_back({.name = "Conv2dOfRectangles", .batch = 3, .integers = true, .build = [](OpHarness& h) {
                     return conv2d(h.graph(), "conv", h.input("x", {3, 8, 9, 4}),
                                   {.filters = 8, .kernel = 1, .kernel_width = 7, .pads = {0, 3, 0, 2}});
                   }});
  cases.push_back({.name = "Conv2dOfRectangularPatches", .batch = 3, .integers = true, .build = [](OpHarness& h) {
                     const Conv2dParams params{
                         .filters = 8, .kernel = 1, .padding = Padding::valid, .kernel_width = 4, .stride_width = 4};
                     return conv2d(h.graph(), "conv", h.input("x", {3, 6, 8, 4}), params);
                   }});
  cases.push_back({.name = "DepthwiseConv2dOfRectangles", .batch = 3, .integers = true, .build = [](OpHarness& h) {
                     return depthwise_conv2d(h.graph(), "conv", h.input("x", {3, 9, 8, 8}),
                                             {.kernel = 3, .stride = 2, .kernel_width = 5, .stride_width = 1});
                   }});
  cases.push_back({.name = "Conv2dOfImages",  // the channels of images and filters are padded
                   .batch = 3,
                   .image_bytes = 7 * 6 * 3,
                   .integers = true,
                   .rounds_once = false,
                   .build = [](OpHarness& h) {
                     const Value x = image_input(h.graph(), "input", {.sample = {7, 6, 3}, .scale = 1.0f / 256.0f});
                     return conv2d(h.graph(), "conv", x, {.filters = 24, .kernel = 5});
                   }});
  return cases;
}

std::vector<OpCase> tokens() {
  return {{.name = "EmbedTokens",
           .batch = 3,
           .build =
               [](OpHarness& h) {
                 return embed_tokens(h.graph(), "tokens", h.input("x", {3, 2, 3, 8}), {});
               }},
          {.name = "FirstToken", .batch = 3, .drops = true, .build = [](OpHarness& h) {
             return first_token(h.graph(), "class", h.input("x", {3, 4, 8}));
           }}};
}

std::vector<OpCase> pools() {
  std::vector<OpCase> cases;
  for (const std::int64_t channels : {3, 16}) {
    const std::string name = std::to_string(channels);
    for (const bool relu : {false, true}) {
      cases.push_back({.name = "MaxPool" + name + (relu ? "Relu" : ""), .batch = 3, .build = [=](OpHarness& h) {
                         const Value x = relu_if(relu, h.graph(), h.input("x", {3, 7, 8, channels}));
                         return max_pool(h.graph(), "pool", x, {.window = 3, .stride = 2});
                       }});
    }
    cases.push_back({.name = "MaxPoolReadTwice" + name,  // on a GPU, the pooling adds the gradients of both readers
                     .batch = 3,
                     .rounds_once = false,
                     .build = [=](OpHarness& h) {
                       Graph& graph = h.graph();
                       const Value x = relu_if(channels == 3, graph, h.input("x", {3, 7, 8, channels}));
                       const Value y = max_pool(graph, "pool", x, {.window = 3, .stride = 2});
                       return add(graph, "joined", scale(graph, "part", y, 0.375f), y);
                     }});
    cases.push_back(
        {.name = "AvgPool" + name, .batch = 3, .build = [=](OpHarness& h) {
           return avg_pool(h.graph(), "pool", h.input("x", {3, 7, 8, channels}), {.window = 3, .stride = 2});
         }});
    cases.push_back({.name = "MaxPoolOfRectangles" + name, .batch = 3, .build = [=](OpHarness& h) {
                       return max_pool(h.graph(), "pool", h.input("x", {3, 7, 8, channels}),
                                       {.window = 3, .stride = 2, .window_width = 2, .pads = {0, 0, 1, 1}});
                     }});
    cases.push_back({.name = "AvgPoolThatCountsPadding" + name, .batch = 3, .build = [=](OpHarness& h) {
                       return avg_pool(h.graph(), "pool", h.input("x", {3, 7, 8, channels}),
                                       {.window = 3, .stride = 2, .counts_padding = true, .pads = {1, 1, 0, 0}});
                     }});
    cases.push_back({.name = "GlobalAvgPool" + name, .batch = 3, .build = [=](OpHarness& h) {
                       return global_avg_pool(h.graph(), "pool", h.input("x", {3, 7, 8, channels}));
                     }});
  }
  for (const bool relu : {false, true}) {
    for (const std::int64_t filters : {5, 16}) {  // the pooling adds the biases of the convolution
      cases.push_back({.name = "Conv2dBeforeMaxPool" + std::to_string(filters) + (relu ? "Relu" : ""),
                       .batch = 3,
                       .integers = true,
                       .rounds_once = false,
                       .build = [=](OpHarness& h) {
                         Graph& graph = h.graph();
                         const Value x = h.input("x", {3, 7, 8, 4});
                         const Value z = conv2d(graph, "conv", x, {.filters = filters, .kernel = 3});
                         return max_pool(graph, "pool", relu_if(relu, graph, z), {.window = 3, .stride = 2});
                       }});
    }
  }
  return cases;
}

std::vector<OpCase> elementwise_ops() {
  std::vector<OpCase> cases;
  for (const std::int64_t size : {7, 64}) {
    const std::string name = std::to_string(size);
    cases.push_back({.name = "Dropout" + name, .batch = 5, .drops = true, .build = [=](OpHarness& h) {
                       return dropout(h.graph(), "drop", h.input("x", {5, size}), {.rate = 0.3f});
                     }});
    cases.push_back({.name = "DropPath" + name, .batch = 5, .drops = true, .build = [=](OpHarness& h) {
                       return drop_path(h.graph(), "drop", h.input("x", {5, size}), {.rate = 0.3f});
                     }});
    cases.push_back({.name = "Gelu" + name, .batch = 3, .build = [=](OpHarness& h) {
                       return gelu(h.graph(), "op", h.input("x", {3, size}));
                     }});
    cases.push_back({.name = "Silu" + name, .batch = 3, .build = [=](OpHarness& h) {
                       return silu(h.graph(), "op", h.input("x", {3, size}));
                     }});
  }
  cases.push_back({.name = "Relu", .batch = 3, .build = [](OpHarness& h) {
                     return relu(h.graph(), "relu", h.input("x", {3, 7, 11}));
                   }});
  cases.push_back({.name = "Scale", .batch = 3, .build = [](OpHarness& h) {
                     return scale(h.graph(), "scale", h.input("x", {3, 7, 11}), 0.125f);
                   }});
  using AddFunction = Value (*)(Graph&, const std::string&, Value);
  const auto function = [&](const char* name, bool is_bounded, AddFunction add) {
    for (const std::int64_t size : {7, 64}) {
      cases.push_back({.name = name + std::to_string(size),
                       .batch = 3,
                       .is_bounded = is_bounded,
                       .rounds_once = !std::string_view(name).ends_with("OfExp"),
                       .build = [=](OpHarness& h) {
                         return add(h.graph(), "op", h.input("x", {3, size}));
                       }});
    }
  };
  function("Sigmoid", true, sigmoid);
  function("HardSigmoid", true, [](Graph& graph, const std::string& name, Value x) {
    return hard_sigmoid(graph, name, x, {.alpha = 0.75f});
  });
  function("HardSwish", false, hard_swish);
  function("Clip", true, [](Graph& graph, const std::string& name, Value x) {
    return clip(graph, name, x, {.least = -0.3f, .most = 0.625f});
  });
  function("LeakyRelu", false, [](Graph& graph, const std::string& name, Value x) {
    return leaky_relu(graph, name, x, {.slope = 0.125f});
  });
  function("Tanh", true, tanh);
  function("Exp", false, exp);
  function("SqrtOfExp", false,
           [](Graph& graph, const std::string& name, Value x) { return sqrt(graph, name, exp(graph, "exp", x)); });
  function("ReciprocalOfExp", true, [](Graph& graph, const std::string& name, Value x) {
    return reciprocal(graph, name, exp(graph, "exp", x));
  });
  function("Erf", true, erf);
  function("Shift", false,
           [](Graph& graph, const std::string& name, Value x) { return shift(graph, name, x, 0.625f); });
  for (const std::int64_t units : {12, 64}) {
    for (const auto& [name, kind] :
         {std::pair("Gelu", ActivationKind::gelu), std::pair("Silu", ActivationKind::silu)}) {
      cases.push_back({.name = "Dense" + std::to_string(units) + name,  // on a GPU, gelu and silu sum bias gradients
                       .batch = 70,
                       .rounds_once = false,
                       .build = [units = units, activation = kind](OpHarness& h) {
                         const Value x = h.input("x", {70, 9, 8});
                         return activated(activation, h.graph(),
                                          dense(h.graph(), "layer", x, {.units = units, .per_position = true}));
                       }});
    }
  }
  for (const std::int64_t size : {3, 8}) {
    cases.push_back({.name = "Split" + std::to_string(size),  // no op reads the second part
                     .batch = 5,
                     .integers = true,
                     .drops = true,
                     .build = [=](OpHarness& h) {
                       const std::vector<Value> parts = split(h.graph(), "split", h.input("x", {5, 3, 5 * size}),
                                                              {.sizes = {size, 2 * size, size, size}});
                       return add(h.graph(), "sum", parts[0], parts[3]);
                     }});
  }
  for (const std::int64_t size : {3, 8}) {
    cases.push_back({.name = "Concat" + std::to_string(size), .batch = 5, .integers = true, .build = [=](OpHarness& h) {
                       const std::vector<Value> parts{h.input("x", {5, 3, size}), h.input("y", {5, 3, 2 * size})};
                       return concat(h.graph(), "concat", parts);
                     }});
  }
  for (const auto& [name, shape] : {std::pair("Channels", Shape{3, 16}), std::pair("Columns", Shape{3, 1, 5, 1}),
                                    std::pair("All", Shape{3, 4, 5, 16}), std::pair("One", Shape{3, 1})}) {
    cases.push_back({.name = std::string("MultiplyBy") + name, .batch = 3, .build = [shape = shape](OpHarness& h) {
                       return multiply(h.graph(), "product", h.input("x", {3, 4, 5, 16}), h.input("y", shape));
                     }});
    cases.push_back({.name = std::string("Add") + name, .batch = 3, .build = [shape = shape](OpHarness& h) {
                       return add(h.graph(), "sum", h.input("y", shape), h.input("x", {3, 4, 5, 16}));
                     }});
  }
  cases.push_back({.name = "Constants", .batch = 3, .rounds_once = false, .build = [](OpHarness& h) {
                     const Value scales = constant(h.graph(), "scales", {.shape = {4}, .values = {0.5f, -1, 2, 0.25f}});
                     const Value shift = constant(h.graph(), "shift", {.shape = {7, 1}, .values = {0.75f}});
                     const Value x = multiply(h.graph(), "product", h.input("x", {3, 7, 4}), scales);
                     return add(h.graph(), "sum", x, shift);
                   }});
  cases.push_back({.name = "Variables", .batch = 3, .rounds_once = false, .build = [](OpHarness& h) {
                     const Value factors = variable(h.graph(), "factors", {.shape = {4}});
                     const Value positions = variable(h.graph(), "positions", {.shape = {7, 4}});
                     const Value x = multiply(h.graph(), "product", h.input("x", {3, 7, 4}), factors);
                     return add(h.graph(), "sum", x, positions);
                   }});
  cases.push_back(
      {.name = "SharedVariables", .batch = 3, .integers = true, .rounds_once = false, .build = [](OpHarness& h) {
         Graph& graph = h.graph();
         const Value x = dense(graph, "a", h.input("x", {3, 8}), {.units = 8});
         graph.share_parameter("b/weights", "a/weights");
         graph.share_parameter("b/biases", "a/biases");
         return dense(graph, "b", x, {.units = 8});
       }});
  cases.push_back({.name = "BranchesThatJoin",  // three ops read x; `inner` reads x and a branch of x
                   .batch = 3,
                   .integers = true,
                   .rounds_once = false,
                   .build = [](OpHarness& h) {
                     Graph& graph = h.graph();
                     const Value x = h.input("x", {3, 8});
                     const Value sum = add(graph, "inner", dense(graph, "a", x, {.units = 8}), x);
                     return add(graph, "outer", sum, dense(graph, "b", x, {.units = 8}));
                   }});
  return cases;
}

std::vector<OpCase> shape_ops() {
  std::vector<OpCase> cases;
  const auto add_case = [&](const std::string& name, const Shape& x, bool drops, auto add) {
    cases.push_back({.name = name, .batch = x[0], .integers = true, .drops = drops, .build = [=](OpHarness& h) {
                       return add(h.graph(), h.input("x", x));
                     }});
  };
  for (const std::int64_t size : {3, 16}) {
    const std::string name = std::to_string(size);
    add_case("TransposeRows" + name, {3, 5, 4, size}, false, [](Graph& graph, Value x) {
      return transpose(graph, "op", x, {.axes = {0, 2, 1, 3}});
    });
    add_case("TransposeChannels" + name, {3, 5, 4, size}, false, [](Graph& graph, Value x) {
      return transpose(graph, "op", x, {.axes = {0, 3, 2, 1}});
    });
    add_case("Pad" + name, {3, 5, 4, size}, false, [](Graph& graph, Value x) {
      return pad(graph, "op", x, {.before = {1, 0, 0}, .after = {2, 1, 0}, .value = 0.5f});
    });
    add_case("Crop" + name, {3, 5, 4, size}, true, [](Graph& graph, Value x) {
      return pad(graph, "op", x, {.before = {-1, 0, 2}, .after = {-2, 1, -1}});
    });
    add_case("Slice" + name, {3, 5, size}, true, [](Graph& graph, Value x) {
      return slice(graph, "op", x, {.axis = 1, .first = 4, .count = 2, .step = -3});
    });
    add_case("Gather" + name, {3, 5, size}, true, [](Graph& graph, Value x) {
      return gather(graph, "op", x, {.axis = 1, .indices = {4, 0, 0, -1, 2}});
    });
    add_case("GatherLast" + name, {3, 5, size}, true, [](Graph& graph, Value x) {
      return gather(graph, "op", x, {.indices = {2, 1, 2}});
    });
    add_case("Reshape" + name, {3, 5, size}, false, [](Graph& graph, Value x) {
      return scale(graph, "scale", reshape(graph, "op", x, {.extents = {-1}}), 0.5f);
    });
  }
  return cases;
}

std::vector<OpCase> means_and_products() {
  std::vector<OpCase> cases;
  cases.push_back({.name = "GatherWeighted", .batch = 3, .build = [](OpHarness& h) {
                     const GatherParams params{
                         .axis = 1,
                         .indices = {0, 1, 1, 1, 1, 2, 2, 3, 3, -1},
                         .weights = {0.75f, 0.25f, 1.0f, 0.5f, 0.3f, 0.7f, 0.5f, 0.5f, 1.5f, 2.0f},
                         .terms = 2};
                     return gather(h.graph(), "op", h.input("x", {3, 4, 5, 6}), params);
                   }});
  for (const auto& [name, axes] :
       {std::pair("Images", std::vector<std::int64_t>{1, 2}), std::pair("Channels", std::vector<std::int64_t>{-1}),
        std::pair("Rows", std::vector<std::int64_t>{1}), std::pair("Samples", std::vector<std::int64_t>{1, 2, 3})}) {
    cases.push_back({.name = std::string("MeanOf") + name, .batch = 3, .build = [axes = axes](OpHarness& h) {
                       return mean(h.graph(), "op", h.input("x", {3, 4, 5, 6}), {.axes = axes, .keeps_axes = true});
                     }});
  }
  for (const std::int64_t size : {3, 32, 70}) {
    cases.push_back({.name = "Softmax" + std::to_string(size), .batch = 3, .build = [=](OpHarness& h) {
                       return softmax(h.graph(), "op", h.input("x", {3, 5, size}));
                     }});
  }
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const std::string name = std::string(a ? "Transposed" : "") + "By" + (b ? "Transposed" : "");
      cases.push_back({.name = "Matmul" + name, .batch = 3, .integers = true, .build = [=](OpHarness& h) {
                         const Value left = h.input("x", a ? Shape{3, 2, 8, 5} : Shape{3, 2, 5, 8});
                         const Value right = h.input("y", b ? Shape{3, 2, 7, 8} : Shape{3, 2, 8, 7});
                         return matmul(h.graph(), "op", left, right, {.transpose_a = a, .transpose_b = b});
                       }});
    }
  }
  return cases;
}

std::vector<OpCase> norms() {
  std::vector<OpCase> cases;
  for (const std::int64_t channels : {5, 64}) {
    cases.push_back({.name = "Lrn" + std::to_string(channels), .batch = 3, .build = [=](OpHarness& h) {
                       return lrn(h.graph(), "norm", h.input("x", {3, 4, 5, channels}), {.alpha = 0.5f});
                     }});
    cases.push_back({.name = "LayerNorm" + std::to_string(channels), .batch = 3, .build = [=](OpHarness& h) {
                       return layer_norm(h.graph(), "norm", h.input("x", {3, 7, channels}));
                     }});
    cases.push_back(
        // On a GPU, scale_channels sums the bias gradients.
        {.name = "DenseAndScaleChannels" + std::to_string(channels),
         .batch = 70,
         .rounds_once = false,
         .build = [=](OpHarness& h) {
           const Value x = h.input("x", {70, 9, 8});
           return scale_channels(h.graph(), "scale",
                                 dense(h.graph(), "layer", x, {.units = channels, .per_position = true}));
         }});
    cases.push_back({.name = "ScaleChannelsAndSum" + std::to_string(channels),  // on a GPU, one kernel
                     .batch = 3,
                     .rounds_once = false,
                     .build = [=](OpHarness& h) {
                       const Value z = h.input("z", {3, 7, channels}), x = h.input("x", {3, 7, channels});
                       return add(h.graph(), "sum", scale_channels(h.graph(), "scale", x), z);
                     }});
    cases.push_back({.name = "ScaleChannels" + std::to_string(channels), .batch = 3, .build = [=](OpHarness& h) {
                       return scale_channels(h.graph(), "scale", h.input("x", {3, 7, channels}));
                     }});
  }
  for (const auto& [name, kind] : {std::pair("", ActivationKind::none), std::pair("Relu", ActivationKind::relu),
                                   std::pair("Gelu", ActivationKind::gelu)}) {
    for (const std::int64_t channels : {5, 16}) {
      cases.push_back({.name = "BatchNorm" + std::to_string(channels) + name,
                       .batch = 9,
                       .build = [channels, activation = kind](OpHarness& h) {
                         const Value x = h.input("x", {9, 3, 5, channels});
                         return activated(activation, h.graph(),
                                          batch_norm(h.graph(), "norm", x, {.trains_scale = channels != 5}));
                       }});
      cases.push_back({.name = "FrozenBatchNorm" + std::to_string(channels) + name,
                       .batch = 9,
                       .build = [channels, activation = kind](OpHarness& h) {
                         const Value x = h.input("x", {9, 3, 5, channels});
                         const Value z = batch_norm(h.graph(), "norm", x, {.trains_scale = channels != 5});
                         freeze_statistics(h.graph(), [](const Graph::Node&) { return true; });
                         return activated(activation, h.graph(), z);
                       }});
      if (kind == ActivationKind::gelu) continue;  // no pass fuses an addition with a gelu
      cases.push_back({.name = "BatchNormAndSum" + std::to_string(channels) + name,
                       .batch = 9,
                       .build = [channels, activation = kind](OpHarness& h) {
                         const Shape shape{9, 3, 5, channels};
                         const Value addend = h.input("addend", shape), x = h.input("x", shape);
                         const Value z = batch_norm(h.graph(), "norm", x);
                         return activated(activation, h.graph(), add(h.graph(), "sum", addend, z));
                       }});
      cases.push_back({.name = "BatchNormAndSumReadTwice" + std::to_string(channels) + name,
                       .batch = 9,
                       .rounds_once = false,
                       .build = [channels, activation = kind](OpHarness& h) {
                         Graph& graph = h.graph();
                         const Shape shape{9, 3, 5, channels};
                         const Value addend = h.input("addend", shape), x = h.input("x", shape);
                         const Value sum = add(graph, "sum", addend, batch_norm(graph, "norm", x));
                         const Value y = activated(activation, graph, sum);
                         return add(graph, "joined", scale(graph, "part", y, 0.375f), y);
                       }});
    }
  }
  return cases;
}

std::vector<OpCase> attentions() {
  std::vector<OpCase> cases;
  for (const std::int64_t head_size : {5, 32, 64}) {
    for (const std::int64_t tokens : {1, 35}) {
      cases.push_back({.name = "Attention" + std::to_string(head_size) + "Of" + std::to_string(tokens),
                       .batch = 3,
                       .rounds_once = false,
                       .build = [=](OpHarness& h) {
                         const Value qkv = h.input("x", {3, tokens, 3 * 2 * head_size});
                         return attention(h.graph(), "attention", qkv, {.heads = 2});
                       }});
    }
  }
  return cases;
}

std::vector<OpCase> losses() {
  std::vector<OpCase> cases;
  for (const std::int64_t batch : {1, 7, 300}) {
    for (const bool mixes : {false, true}) {
      cases.push_back({.name = "SoftmaxCrossEntropy" + std::to_string(batch) + (mixes ? "Mixed" : ""),
                       .batch = batch,
                       .build = [=](OpHarness& h) {
                         return softmax_cross_entropy(h.graph(), "loss", h.input("z", {batch, 10}), labels(h),
                                                      {.label_smoothing = batch == 7 ? 0.2f : 0.0f,
                                                       .mixing = {.mixup = mixes ? 1.0 : 0.0, .seed = 3}});
                       }});
    }
  }
  for (const bool focal : {false, true}) {
    cases.push_back({.name = focal ? "SoftmaxCrossEntropyFocal" : "SoftmaxCrossEntropyWeighted",
                     .batch = 70,
                     .build = [=](OpHarness& h) {
                       return softmax_cross_entropy(
                           h.graph(), "loss", h.input("z", {70, 10}), labels(h),
                           {.label_smoothing = focal ? 0.1f : 0.0f,
                            .class_weights = {0.5f, 2.0f, 1.0f, 0.0f, 1.5f, 0.25f, 3.0f, 1.0f, 0.75f, 1.25f},
                            .focal_gamma = focal ? 2.0f : 0.0f});
                     }});
  }
  for (const std::int64_t classes : {100, 1000}) {
    for (const std::int64_t batch : {3, 70}) {  // 3: the loss op computes the bias gradient; 70: the dense op does
      cases.push_back({.name = "SoftmaxCrossEntropyOf" + std::to_string(classes) + "By" + std::to_string(batch),
                       .batch = batch,
                       .integers = true,
                       .fp32_tolerance = 1e-5f,  // the gradient of x is a sum over the classes
                       .rounds_once = false,
                       .build = [=](OpHarness& h) {
                         const Value z = dense(h.graph(), "layer", h.input("x", {batch, 8}), {.units = classes});
                         return softmax_cross_entropy(h.graph(), "loss", z, labels(h));
                       }});
    }
  }
  for (const MeanLossKind kind : {MeanLossKind::sigmoid_cross_entropy, MeanLossKind::squared_error,
                                  MeanLossKind::absolute_error, MeanLossKind::huber}) {
    for (const std::int64_t batch : {3, 300}) {  // 3 samples need less than one block; 300 need several
      cases.push_back({.name = "MeanLoss" + std::to_string(static_cast<int>(kind)) + "By" + std::to_string(batch),
                       .batch = batch,
                       .build = [=](OpHarness& h) {  // the target is the bytes of the labels
                         const Value target = h.graph().add_target({.type = DType::u8, .shape = {4}});
                         return mean_loss(
                             h.graph(), "loss", h.input("z", {batch, 4}), target,
                             {.kind = kind, .delta = 0.5f, .mixing = {.mixup = batch > 3 ? 1.0 : 0.0, .seed = 3}});
                       }});
    }
  }
  return cases;
}

/// Returns parameters of image_input as in TensorFlow's CIFAR-10 tutorial.
ImageInputParams standardized_crop(bool distort) {
  ImageInputParams params = tutorial_input;
  params.distort = distort;
  params.seed = 9;
  return params;
}

std::vector<OpCase> image_ops() {
  std::vector<OpCase> cases;
  cases.push_back({.name = "ImageInputScaled", .batch = 5, .image_bytes = 63, .build = [](OpHarness& h) {
                     return image_input(h.graph(), "input", {.sample = {7, 9, 1}, .scale = 1.0f / 255.0f});
                   }});
  const auto images = [](OpHarness& h) {
    return image_input(h.graph(), "input", {.sample = {11, 35, 3}, .scale = 1.0f / 255.0f});
  };
  for (const bool cuts : {false, true}) {
    cases.push_back({.name = cuts ? "CutMix" : "MixUp",
                     .batch = 5,
                     .image_bytes = 1155,
                     .rounds_once = false,
                     .build = [=](OpHarness& h) {
                       const MixingParams params{
                           .mixup = cuts ? 0.0 : 1.0, .cutmix = cuts ? 1.0 : 0.0, .height = 11, .width = 35, .seed = 3};
                       return mix_images(h.graph(), "mixing", images(h), params);
                     }});
  }
  cases.push_back(
      {.name = "ImageInputWarped", .batch = 5, .image_bytes = 1155, .rounds_once = false, .build = [=](OpHarness& h) {
         const Value x = images(h);
         warp_images(h.graph(), x, {.rotation = 20.0, .zoom = 0.2, .shift = 0.1, .seed = 3});
         return x;
       }});
  for (const bool distort : {false, true}) {
    cases.push_back(
        {.name = distort ? "ImageInputStandardized" : "ImageInputStandardizedOff",
         .batch = 5,
         .image_bytes = cifar_bytes,
         .build = [=](OpHarness& h) { return image_input(h.graph(), "input", standardized_crop(distort)); }});
  }
  for (const auto& [name, mirroring, distort] :
       {std::tuple("", ImageMirroring::random, true), std::tuple("Off", ImageMirroring::random, false),
        std::tuple("Alternating", ImageMirroring::alternating, true)}) {
    const ImageInputParams params{.values = PixelValues::normalized,
                                  .mean = {0.5f, 0.4f, 0.3f},
                                  .deviation = {0.25f, 0.5f, 1.0f, 1.0f},
                                  .padding = 4,
                                  .mirroring = mirroring,
                                  .cutout = 8,
                                  .distort = distort,
                                  .record_count = 42,
                                  .seed = 9};
    cases.push_back({.name = std::string("ImageInputNormalized") + name,
                     .batch = 5,
                     .image_bytes = cifar_bytes,
                     .build = [=](OpHarness& h) { return image_input(h.graph(), "input", params); }});
  }
  return cases;
}

OpCase several_ops() {
  return {.name = "Several",
          .batch = 3,
          .image_bytes = cifar_bytes,
          .tf32_tolerance = 0.2f,
          .bf16_tolerance = 0.2f,  // of two nearly equal values, the pooling may choose another one
          .rounds_once = false,
          .build = [](OpHarness& h) {
            Graph& graph = h.graph();
            Value x = image_input(graph, "input", standardized_crop(true));
            x = conv2d(graph, "conv", x, {.filters = 8, .kernel = 3});
            x = max_pool(graph, "pool", relu(graph, "relu", x), {.window = 3, .stride = 2});
            x = lrn(graph, "norm", x);
            x = dense(graph, "layer", x, {.units = 10});
            return softmax_cross_entropy(graph, "loss", x, labels(h));
          }};
}

}  // namespace

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases{several_ops()};
  for (std::vector<OpCase>& some : std::vector{products(), tokens(), pools(), elementwise_ops(), shape_ops(),
                                               means_and_products(), norms(), attentions(), losses(), image_ops()}) {
    std::ranges::move(some, std::back_inserter(cases));
  }
  return cases;
}

}  // namespace carillon::testing
