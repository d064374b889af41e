// The cases of layers that compute products: dense, convolutions, attention; and of the tokens of vision transformers.
#include "tests/support/op_case_lists.h"

#include "kernels/attention/attention.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/tokens/tokens.h"

namespace carillon::testing {

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

}  // namespace carillon::testing
