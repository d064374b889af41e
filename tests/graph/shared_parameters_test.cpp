// Tests of parameters that several ops share (Graph::share_parameter).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/gradient_ops.h"
#include "kernels/image_input/image_input.h"
#include "kernels/shared/op_types.h"
#include "kernels/values/values.h"
#include "src/graph/batch_tiling.h"
#include "src/graph/memory_plan.h"
#include "src/graph/passes.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/networks.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns the names of the nodes, separated by ", ".
std::string names_of(const std::vector<Graph::Node>& nodes) {
  std::string names;
  for (const Graph::Node& node : nodes) names += (names.empty() ? "" : ", ") + node.name;
  return names;
}

class SharedParameters : public ::testing::Test {
 protected:
  Value layer(const std::string& name, Value x) { return dense(graph_, name, x, {.units = 4}); }

  Graph graph_{2};
  Value input_ = image_input(graph_, "input", {.sample = {4}});
};

TEST_F(SharedParameters, AreOneParameter) {
  const Value a = layer("a", input_);
  graph_.share_parameter("b/weights", "a/weights");
  layer("b", a);
  EXPECT_EQ(graph_.parameters().size(), 3u);
  EXPECT_THAT(graph_.nodes()[2].parameters, ElementsAre(0, 2));
  EXPECT_EQ(graph_.parameters()[2].name, "b/biases");
  EXPECT_EQ(graph_.nodes()[2].shared_parameters.at("b/weights"), "a/weights");
  EXPECT_TRUE(graph_.nodes()[1].shared_parameters.empty());
}

TEST_F(SharedParameters, AreSummedBeforeTheFirstOp) {
  Value x = layer("a", input_);
  graph_.share_parameter("b/weights", "a/weights");
  x = layer("b", x);
  graph_.share_parameter("c/weights", "a/weights");
  graph_.share_parameter("c/biases", "b/biases");
  layer("c", x);
  give_values_one_reader(graph_, DeviceKind::cpu, gradient_ops());
  EXPECT_EQ(names_of(graph_.nodes()), "input, a/weights/sum, a, b/biases/sum, b, c");
  const std::vector<Graph::Node>& nodes = graph_.nodes();
  EXPECT_EQ(nodes[1].outputs.size(), 2u);
  EXPECT_TRUE(nodes[2].gradient_values.empty());
  EXPECT_THAT(nodes[4].gradient_values, ElementsAre(nodes[1].outputs[0], -1));
  EXPECT_THAT(nodes[5].gradient_values, ElementsAre(nodes[1].outputs[1], nodes[3].outputs[0]));
  const std::vector<Lifetime> lives = tensor_lifetimes(graph_, plan_tiling(graph_, 0), true, {});
  for (const int value : nodes[1].outputs) {
    EXPECT_LT(lives[value].last, lives[value].first) << "no op reads or writes the value";
    const Lifetime& gradient = lives[graph_.values().size() + static_cast<std::size_t>(value)];
    EXPECT_LT(gradient.first, gradient.last);
    EXPECT_EQ(gradient.bytes, 4u * 4 * sizeof(float));
  }
}

/// If only the biases of op b are trained, b nevertheless computes the gradient of the shared weights, which needs
/// memory.
TEST_F(SharedParameters, HaveMemoryForTheGradientsOfOpsThatRun) {
  const Value x = layer("a", input_);
  graph_.share_parameter("b/weights", "a/weights");
  layer("b", x);
  give_values_one_reader(graph_, DeviceKind::cpu, gradient_ops());
  const auto value = static_cast<std::size_t>(graph_.nodes()[1].outputs.at(0));
  const auto is_used = [&](const std::vector<bool>& trains) {
    graph_.want_gradients_of(trains);
    const Lifetime life = tensor_lifetimes(graph_, plan_tiling(graph_, 0), true, {})[graph_.values().size() + value];
    return life.first <= life.last;
  };
  EXPECT_TRUE(is_used({true, true, true}));
  EXPECT_TRUE(is_used({false, true, true}));
  EXPECT_TRUE(is_used({false, false, true}));
  EXPECT_FALSE(is_used({false, false, false}));
}

TEST_F(SharedParameters, AreRefusedIfTheyAreMissingOrUnsuitable) {
  const Value x = layer("a", input_);
  EXPECT_THAT(error_of([&] { graph_.share_parameter("b/weights", "weights"); }).what(),
              HasSubstr("no earlier op has the variable 'weights', which was to be shared"));
  graph_.share_parameter("b/weights", "a/weights");
  EXPECT_THAT(error_of([&] { dense(graph_, "b", x, {.units = 3}); }).what(),
              HasSubstr("the variable 'b/weights' of shape [4, 3] cannot be 'a/weights' of shape [4, 4]"));
}

TEST_F(SharedParameters, AreRefusedIfTheOpHasNoSuchVariable) {
  const Value x = layer("a", input_);
  graph_.share_parameter("b/gamma", "a/weights");
  EXPECT_THAT(error_of([&] { layer("b", x); }).what(),
              HasSubstr("op 'b' has no variable 'b/gamma', which was to be shared"));
}

TEST_F(SharedParameters, TakeTheirName) {
  const Value x = layer("a", input_);
  graph_.share_parameter("b/weights", "a/weights");
  layer("b", x);
  EXPECT_THROW(graph_.add_parameter({"b/weights", {4, 4}, {}}), Error);
}

TEST_F(SharedParameters, AreInADescription) {
  const Network network = sharing_network();
  const auto json = nlohmann::ordered_json::parse(description_text(network));
  EXPECT_EQ(json["ops"].back().contains("shared"), false);
  auto changed = json;
  for (auto& op : changed["ops"]) {
    if (op.contains("shared")) op["shared"]["x"] = "a/weights";
  }
  EXPECT_THAT(error_of([&] { build_network(Network{read_description(changed.dump(), op_types())}, {}); }).what(),
              HasSubstr("the op 'b' of type dense: op 'b' has no variable 'x', which was to be shared"));
  for (auto& op : changed["ops"]) {
    if (op.contains("shared")) op["shared"] = {{"b/weights", "logits/weights"}};
  }
  EXPECT_THAT(error_of([&] { build_network(Network{read_description(changed.dump(), op_types())}, {}); }).what(),
              HasSubstr("no earlier op has the variable 'logits/weights'"));
}

/// The finite differences change a shared parameter, so they include its effect on all ops that share it.
TEST(SharedGradientsOfParameters, MatchFiniteDifferences) {
  for (const int threads : {1, 2}) {
    OpHarness harness(5, threads);
    Graph& graph = harness.graph();
    Value x = gelu(graph, "gelu", dense(graph, "a", harness.input("x", {5, 6}), {.units = 6}));
    graph.share_parameter("b/weights", "a/weights");
    x = dense(graph, "b", x, {.units = 6});
    graph.share_parameter("c/weights", "a/weights");
    graph.share_parameter("c/biases", "b/biases");
    harness.finish(dense(graph, "c", x, {.units = 6}));
    harness.expect_gradients_match_differences(1e-2, 2e-2);
  }
}

/// The op `variable` has no inputs.
TEST(SharedGradientsOfParameters, MatchFiniteDifferencesForOpsWithoutInputs) {
  OpHarness harness(5, 2);
  Graph& graph = harness.graph();
  Value x = add(graph, "first", harness.input("x", {5, 6}), variable(graph, "a", {.shape = {6}}));
  graph.share_parameter("b/values", "a/values");
  x = multiply(graph, "second", gelu(graph, "gelu", x), variable(graph, "b", {.shape = {6}}));
  harness.finish(x);
  harness.expect_gradients_match_differences(1e-2, 2e-2);
}

/// A graph of five convolutions in tiles. Either the third convolution shares the variables of the first one, or it has
/// its own variables with equal values.
struct TiledConvolutions {
  static constexpr std::int64_t batch = 64;

  explicit TiledConvolutions(bool shares) {
    Graph& graph = harness.graph();
    Value x = harness.input("x", {batch, 16, 16, 16});
    for (const char* const name : {"a", "b", "c", "d", "e"}) {
      if (shares && name[0] == 'c') {
        graph.share_parameter("c/weights", "a/weights");
        graph.share_parameter("c/biases", "a/biases");
      }
      x = gelu(graph, name + std::string("/gelu"), conv2d(graph, name, x, {.filters = 16, .kernel = 3}));
    }
    harness.finish(x);
    harness.set("x", random_values(batch * 16 * 16 * 16, 5));
    for (const std::string name : {"a", "b", "c", "d", "e"}) {
      if (shares && name == "c") continue;
      const std::uint64_t seed = name == "c" ? 'a' : static_cast<std::uint64_t>(name[0]);
      harness.set(name + "/weights", random_values(3 * 3 * 16 * 16, seed, -0.2f, 0.2f));
      harness.set(name + "/biases", random_values(16, seed + 1000));
    }
    const auto y = harness.forward();
    output.assign(y.begin(), y.end());
    harness.backward();
  }
  std::vector<float> gradient(const std::string& name) {
    const auto values = harness.gradient(name);
    return {values.begin(), values.end()};
  }

  OpHarness harness{batch, 2};
  std::vector<float> output;
};

TEST(SharedGradientsOfParameters, AreTheSumOfTheGradientsOfTheOpsAlsoBesideTiles) {
  TiledConvolutions sharing(true), separate(false);
  const auto is_tiled = [](const Graph& graph, const std::string& name) {
    const auto sections = plan_tiling(graph, 2);
    return std::ranges::any_of(sections, [&](const TiledSection& section) {
      const std::span ops = std::span(graph.nodes()).subspan(static_cast<std::size_t>(section.first));
      const auto count = static_cast<std::size_t>(section.last - section.first);
      return section.is_tiled() &&
             std::ranges::any_of(ops.first(count), [&](const Graph::Node& node) { return node.name == name; });
    });
  };
  EXPECT_TRUE(is_tiled(separate.harness.graph(), "c"));
  EXPECT_TRUE(is_tiled(sharing.harness.graph(), "a"));
  EXPECT_FALSE(is_tiled(sharing.harness.graph(), "c"));
  EXPECT_TRUE(is_tiled(sharing.harness.graph(), "e"));
  EXPECT_EQ(sharing.output, separate.output);
  const auto expect_near = [](const std::vector<float>& found, const std::vector<float>& wanted, const char* what) {
    float largest = 0.0f;
    for (const float value : wanted) largest = std::max(largest, std::abs(value));
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5f * largest) << what << i;
  };
  for (const std::string kind : {"/weights", "/biases"}) {
    std::vector<float> sum = separate.gradient("a" + kind);
    const std::vector<float> of_c = separate.gradient("c" + kind);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_c[i];
    expect_near(sharing.gradient("a" + kind), sum, "a");
    expect_near(sharing.gradient("b" + kind), separate.gradient("b" + kind), "b");
    expect_near(sharing.gradient("e" + kind), separate.gradient("e" + kind), "e");
  }
  expect_near(sharing.gradient("x"), separate.gradient("x"), "x");
}

}  // namespace
}  // namespace carillon::testing
