#include "carillon/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "carillon/core/error.h"

namespace carillon::testing {
namespace {

/// The variables of a model by name.
std::map<std::string, ParameterSpec> variables(std::string_view model, const ModelSettings& settings = {}) {
  Graph graph(2);
  const Value logits = model_named(model).build(graph, settings);
  EXPECT_EQ(graph.shape(logits), (Shape{2, 10}));
  std::map<std::string, ParameterSpec> by_name;
  for (const ParameterSpec& spec : graph.parameters()) by_name[spec.name] = spec;
  return by_name;
}

std::int64_t element_count(const std::map<std::string, ParameterSpec>& variables) {
  std::int64_t count = 0;
  for (const auto& [name, spec] : variables) count += spec.shape.element_count();
  return count;
}

void expect_variable(const ParameterSpec& spec, const Shape& shape, float stddev_or_value, float l2_factor) {
  EXPECT_EQ(spec.shape, shape) << spec.name;
  EXPECT_FLOAT_EQ(spec.initializer.value, stddev_or_value) << spec.name;
  EXPECT_EQ(spec.initializer.kind == Initializer::Kind::truncated_normal, spec.name.ends_with("/weights")) << spec.name;
  EXPECT_FLOAT_EQ(spec.l2_factor, l2_factor) << spec.name;
}

TEST(Models, MnistIsTheReferences) {
  auto v = variables("mnist", {.regularization = 0.0001f});
  EXPECT_EQ(element_count(v), 397510);
  EXPECT_EQ(v.size(), 4u);
  expect_variable(v["layer1/weights"], {784, 500}, 0.1f, 0.0001f);
  expect_variable(v["layer1/biases"], {500}, 0.0f, 0.0f);
  expect_variable(v["layer2/weights"], {500, 10}, 0.1f, 0.0001f);
  expect_variable(v["layer2/biases"], {10}, 0.0f, 0.0f);
}

TEST(Models, Cifar10IsTheTutorials) {
  auto v = variables("cifar10", {.regularization = 0.004f});
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

TEST(Models, LenetHasTheCountItsHeaderStates) { EXPECT_EQ(element_count(variables("lenet")), 1663370); }

TEST(Models, AnUnknownNameIsAnsweredWithThoseThereAre) {
  try {
    model_named("resnet");
    ADD_FAILURE() << "there is a resnet";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("mnist, lenet, cifar10"));
  }
}

}  // namespace
}  // namespace carillon::testing
