#include "carillon/graph/graph.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "kernels/layout/layout.h"

namespace carillon::testing {
namespace {

TEST(Graph, RefusesTwoVariablesOfOneName) {
  Graph graph(1);
  graph.add_parameter({"w", {1}, {}, 0.0f});
  EXPECT_THROW(graph.add_parameter({"w", {2}, {}, 0.0f}), Error);
  EXPECT_THROW(graph.add_buffer({"w", {2}}), Error);
  graph.add_buffer({"s", {2}});
  EXPECT_THROW(graph.add_parameter({"s", {2}, {}, 0.0f}), Error);
}

std::string error_of_op(Graph& graph, std::vector<int> parameters) {
  try {
    graph.add_op({.name = "a", .definition = nullptr, .inputs = {}, .parameters = std::move(parameters)}, {1});
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Graph, RefusesAnOpThatListsOtherVariablesThanWereAddedForIt) {
  for (const std::vector<int>& parameters : {std::vector<int>{}, std::vector<int>{0}}) {
    Graph graph(1);
    graph.add_parameter({"w", {1}, {}, 0.0f});
    graph.add_parameter({"b", {1}, {}, 0.0f});
    const std::string variable = parameters.empty() ? "w" : "b";
    EXPECT_EQ(error_of_op(graph, parameters),
              "op 'a' does not list the variable '" + variable + "', which was added before it");
  }
  for (const std::vector<int>& parameters : {std::vector<int>{1, 0}, std::vector<int>{1}}) {
    Graph graph(1);
    graph.add_parameter({"w", {1}, {}, 0.0f});
    graph.add_parameter({"b", {1}, {}, 0.0f});
    EXPECT_EQ(error_of_op(graph, parameters), "op 'a' lists its variables in another order than they were added");
  }
}

TEST(Graph, KnowsEveryReaderOfAValue) {
  Graph graph(1);
  const Value x = image_input(graph, "input", {.sample = {4}});
  dense(graph, "a", x, {.units = 2});
  dense(graph, "b", x, {.units = 2});
  EXPECT_EQ(graph.values()[x.index].readers, (std::vector<int>{1, 2}));
}

TEST(Graph, NamesEachOutputOfAnOp) {
  Graph graph(1);
  const std::vector<Value> parts =
      split(graph, "parts", image_input(graph, "input", {.sample = {6}}), {.sizes = {1, 2, 3}});
  const auto expect_names = [&] {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Graph::ValueInfo& part = graph.values()[parts[i].index];
      EXPECT_EQ(part.name, output_name("parts", i));
      EXPECT_EQ(part.producer, 1);
      EXPECT_EQ(part.shape, Shape({1, static_cast<std::int64_t>(i) + 1}));
    }
  };
  expect_names();
  graph.replace_nodes(graph.nodes());
  expect_names();
  EXPECT_EQ(output_name("parts", 0), "parts");
  EXPECT_EQ(output_name("parts", 2), "parts:2");
}

TEST(Graph, WantsNoGradientBeforeTheFirstVariable) {
  Graph graph(1);
  const Value x = image_input(graph, "input", {.sample = {4}});
  const Value y = dense(graph, "a", x, {.units = 2});
  EXPECT_FALSE(graph.values()[x.index].wants_gradient);
  EXPECT_TRUE(graph.values()[y.index].wants_gradient);
}

TEST(Graph, WantsGradientsBehindTheFirstVariableThatTrains) {
  Graph graph(1);
  const Value x = image_input(graph, "input", {.sample = {4}});
  const Value y = dense(graph, "a", x, {.units = 2}), z = dense(graph, "b", y, {.units = 2});
  const auto wanted = [&] {
    return std::vector<bool>{graph.values()[x.index].wants_gradient, graph.values()[y.index].wants_gradient,
                             graph.values()[z.index].wants_gradient};
  };
  graph.want_gradients_of({false, false, true, false});
  EXPECT_EQ(wanted(), (std::vector<bool>{false, false, true}));
  graph.want_gradients_of({false, true, false, false});
  EXPECT_EQ(wanted(), (std::vector<bool>{false, true, true}));
  graph.want_gradients_of({false, false, false, false});
  EXPECT_EQ(wanted(), (std::vector<bool>{false, false, false}));
}

TEST(Graph, RefusesNodesOutOfOrder) {
  Graph graph(1);
  const Value x = image_input(graph, "input", {.sample = {4}});
  dense(graph, "a", x, {.units = 2});
  EXPECT_THROW(graph.replace_nodes({graph.nodes()[1], graph.nodes()[0]}), Error);
}

}  // namespace
}  // namespace carillon::testing
