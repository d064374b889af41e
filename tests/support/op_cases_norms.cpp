// The cases of pools, norms and scale_channels.
#include "tests/support/op_case_lists.h"

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/lrn/lrn.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "src/graph/passes.h"

namespace carillon::testing {

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

}  // namespace carillon::testing
