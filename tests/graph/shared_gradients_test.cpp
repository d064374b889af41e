// Tests of the passes that avoid sums and copies of gradients on a GPU (src/graph/passes.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/gradient_ops.h"
#include "kernels/image_input/image_input.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "src/graph/memory_plan.h"
#include "src/graph/passes.h"
#include "tests/support/networks.h"
#include "tests/support/switched_off.h"

namespace carillon::testing {
namespace {

/// Follows the backward pass of `graph`. Expects that each op finds the complete gradients of its outputs in memory,
/// not overwritten by the gradients of other values.
void expect_gradients_are_read_before_they_are_overwritten(const Graph& graph) {
  const std::vector<Lifetime> lives = tensor_lifetimes(graph, plan_tiling(graph, 0), true, {});
  const auto place_of = [&](int value) {
    const int index = static_cast<int>(graph.values().size()) + value;
    return lives[index].same_as >= 0 ? lives[index].same_as : index;
  };
  const auto is_used = [&](int value) {
    return graph.values()[value].wants_gradient && !graph.values()[value].readers.empty();
  };
  std::map<int, std::set<int>> complete;  // for each place, the values with a complete gradient there
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Graph::Node& node = graph.nodes()[i];
    for (const int output : node.outputs) {
      EXPECT_TRUE(!is_used(output) || complete[place_of(output)].contains(output)) << node.name;
    }
    const auto keeps = node.traits.keeps_output_gradient;
    for (const int output : node.outputs) {
      if (output == node.outputs.front() && keeps != nullptr && keeps(*node.definition)) continue;
      complete[place_of(output)].clear();
    }
    std::set<int> written;
    for (const std::vector<int>* values : {&node.inputs, &node.gradient_values}) {
      for (const int value : *values) {
        if (value < 0 || !is_used(value)) continue;
        if (written.insert(place_of(value)).second) complete[place_of(value)].clear();
        complete[place_of(value)].insert(value);
      }
    }
  }
}

class SharedGradients : public ::testing::Test {
 protected:
  Value stem() { return layer("stem", image_input(graph_, "input", {.sample = {8, 8, 2}})); }
  Value layer(const std::string& name, Value x) { return dense(graph_, name, x, {.units = 2, .per_position = true}); }
  Value norm(const std::string& name, Value x) { return layer_norm(graph_, name, x); }
  Value sum(Value a, Value b) { return add(graph_, "sum", a, b); }

  /// Runs the pass. For each addition, in forward order, returns whether both inputs use the gradient of the output as
  /// their gradient, without a copy.
  std::vector<bool> run(DeviceKind device = DeviceKind::cuda) {
    give_values_one_reader(graph_, device, gradient_ops());
    expect_gradients_are_read_before_they_are_overwritten(graph_);
    std::vector<bool> share;
    for (const Graph::Node& node : graph_.nodes()) {
      if (node.definition->type() == "add") share.push_back(node.definition->gradient_shares_output(1).has_value());
    }
    return share;
  }
  bool has_forks(std::string_view type = "fork") const {
    return std::ranges::any_of(graph_.nodes(), [&](const auto& node) { return node.definition->type() == type; });
  }

  Graph graph_{2};
};

TEST_F(SharedGradients, ResidualBlocksNeedOnePlaceForTheGradientsOfTheirSums) {
  const Value x = stem(), y = sum(layer("a", norm("a/norm", x)), x), z = sum(layer("b", norm("b/norm", y)), y);
  layer("last", z);
  EXPECT_EQ(run(), (std::vector{true, true}));
  EXPECT_FALSE(has_forks());
  const std::vector<Lifetime> lives = tensor_lifetimes(graph_, plan_tiling(graph_, 0), true, {});
  const int first = static_cast<int>(graph_.values().size());
  for (const Value value : {y, z}) EXPECT_EQ(lives[first + value.index].same_as, first + x.index);
}

TEST_F(SharedGradients, ResidualBlocksNeedOnePlaceIfOtherOpsAdd) {
  const Value x = stem(), y = sum(layer("a", norm("a/norm", x)), x);
  const Value z = sum(scale_channels(graph_, "scale", layer("b", norm("b/norm", y))), y), last = layer("last", z);
  fuse_additions(graph_, DeviceKind::cuda, std::vector{last});
  EXPECT_TRUE(run().empty());
  EXPECT_FALSE(has_forks());
  const std::vector<Lifetime> lives = tensor_lifetimes(graph_, plan_tiling(graph_, 0), true, {});
  const int first = static_cast<int>(graph_.values().size());
  for (const Value value : {y, z}) EXPECT_EQ(lives[first + value.index].same_as, first + x.index);
}

TEST_F(SharedGradients, OtherOpsDoNotAddOnACpuNorIfThisIsSwitchedOff) {
  const Value x = stem(), last = layer("last", sum(layer("a", norm("a/norm", x)), x));
  fuse_additions(graph_, DeviceKind::cpu, std::vector{last});
  const SwitchedOff off("fused_additions");
  fuse_additions(graph_, DeviceKind::cuda, std::vector{last});
  EXPECT_EQ(run(), std::vector{true});
}

TEST_F(SharedGradients, ADepthwiseConvolutionWithoutAStrideAddsItsGradient) {
  const Value x = stem(), y = depthwise_conv2d(graph_, "depthwise", x, {.kernel = 3});
  norm("last", sum(scale_channels(graph_, "scale", norm("norm", y), {}), x));
  EXPECT_EQ(run(), std::vector{true});
  EXPECT_FALSE(has_forks());
}

TEST_F(SharedGradients, ADepthwiseConvolutionWithAStrideNeedsAFork) {
  const Value x = stem();
  depthwise_conv2d(graph_, "depthwise", x, {.kernel = 3, .stride = 2});
  norm("last", x);
  run();
  EXPECT_TRUE(has_forks());
}

TEST_F(SharedGradients, AMaxPoolAddsTheGradientsOfItsTwoReaders) {
  const Value x = max_pool(graph_, "pool", stem(), {.window = 3, .stride = 2});
  norm("last", sum(layer("body", x), layer("shortcut", x)));
  run();
  EXPECT_FALSE(has_forks());
  EXPECT_TRUE(has_forks("gradient_fork"));
}

TEST_F(SharedGradients, AMaxPoolThatAddsBiasesNeedsAFork) {
  const Value convolution =
      conv2d(graph_, "stem", image_input(graph_, "input", {.sample = {8, 8, 2}}), {.filters = 2, .kernel = 3});
  const Value x = max_pool(graph_, "pool", convolution, {.window = 3, .stride = 2});
  const Value y = norm("last", sum(layer("body", x), layer("shortcut", x)));
  defer_biases(graph_, std::vector{y});
  run();
  EXPECT_TRUE(has_forks());
}

TEST_F(SharedGradients, CpusKeepTheirForksAndCopies) {
  const Value x = stem();
  norm("last", sum(layer("body", norm("norm", x)), x));
  EXPECT_EQ(run(DeviceKind::cpu), std::vector{false});
  EXPECT_TRUE(has_forks());
}

TEST_F(SharedGradients, AnAdditionCopiesIfTheLaterProducerOverwritesItsGradient) {
  const Value x = stem();
  const Value y = norm("last", sum(relu(graph_, "relu", layer("body", norm("norm", x))), x));
  fuse_activations(graph_, std::vector{y});
  EXPECT_EQ(run(), std::vector{false});
}

TEST_F(SharedGradients, AnAdditionCopiesIfBothInputsHaveOneProducer) {
  const Value x = stem();
  norm("last", sum(norm("norm", x), x));
  EXPECT_EQ(run(), std::vector{false});
}

/// The second norm also outputs its input t. In the backward pass, the second norm adds its own gradient to the
/// gradient of this output before the first norm has read the gradient of y. So t and y cannot share a gradient.
TEST_F(SharedGradients, AnAdditionCopiesIfTheLaterInputIsAnotherOutputOfItsProducer) {
  const Value x = stem(), y = norm("first", x), t = sum(layer("body", x), x), u = norm("second", t);
  const Value s = sum(t, y);
  norm("last", sum(layer("of u", u), s));
  EXPECT_EQ(run(), (std::vector{true, false, true}));
}

TEST_F(SharedGradients, NetworksAreReadBeforeTheyAreOverwrittenAndNeedLessMemory) {
  const NetworkSettings images = cifar10_images();
  std::vector<Network> networks = all_networks();
  networks.push_back(vit_tiny_patch4_32_network(images));
  networks.push_back(convnext_tiny_network(images));
  const auto peak = [](const Graph& graph) {
    return plan_memory(tensor_lifetimes(graph, plan_tiling(graph, 0), true, {})).peak_bytes;
  };
  for (const Network& network : networks) {
    const BuildSettings settings{.batch_size = 4, .arithmetic = Arithmetic::bf16, .device = DeviceKind::cuda};
    const BuiltNetwork shared = build_network(network, task_of(network), settings);
    expect_gradients_are_read_before_they_are_overwritten(shared.graph);
    const SwitchedOff off("shared_gradients");
    const BuiltNetwork separate = build_network(network, task_of(network), settings);
    EXPECT_LE(peak(shared.graph), peak(separate.graph)) << network.name;
    const auto count = [](const Graph& graph, std::string_view type) {
      return std::ranges::count_if(graph.nodes(), [&](const auto& node) { return node.definition->type() == type; });
    };
    const bool is_residual = network.name.starts_with("vit") || network.name.starts_with("convnext");
    EXPECT_TRUE(!is_residual || count(shared.graph, "fork") == 0) << network.name;
    EXPECT_TRUE(network.name != "resnet18_cifar" || count(shared.graph, "gradient_fork") == 7);
    EXPECT_EQ(count(separate.graph, "gradient_fork"), 0) << network.name;
  }
}

}  // namespace
}  // namespace carillon::testing
