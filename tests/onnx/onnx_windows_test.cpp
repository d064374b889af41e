// Imports pools and convolutions, and compares them with onnxruntime.
#include <gmock/gmock.h>

#include <limits>

#include "tests/onnx/operator_cases.h"

namespace carillon::testing {
namespace {

/// Adds a pad of each image by 1 with `value`, then a max pool.
OperatorCase padded_pool(const std::string& name, float value, std::int64_t window, const Shape64& pads) {
  return {name, [=](Model& m) {
            m.array("minus", {1, 3, 1, 1}, {-300.0f, -300.0f, -300.0f});  // all pixels are below 0
            m.node("Add", {"image", "minus"}, "negative");
            m.integers("pads", {0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]});
            onnx::Attribute& number = *m.node("Constant", {}, "value").add_attribute();
            number.set_name("value_float");
            number.set_type(onnx::Attribute::FLOAT);
            number.set_f(value);
            m.node("Pad", {"negative", "pads", "value"}, "p");
            onnx::Node& pool = m.node("MaxPool", {"p"}, "x");
            Model::attribute(pool, "kernel_shape", {window, window});
            Model::attribute(pool, "strides", {2, 2});
          }};
}

std::vector<OperatorCase> pads() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  return {padded_pool("PoolPadsByInfinity", -infinity, 3, {1, 1, 1, 1}),
          padded_pool("PoolPadsOneSide", -infinity, 3, {0, 1, 2, 0}),
          padded_pool("PoolPadsByTheLowest", std::numeric_limits<float>::lowest(), 3, {1, 1, 1, 1}),
          padded_pool("PoolPadsByAWindow", -infinity, 2, {2, 0, 0, 2}),
          padded_pool("PoolPadsByANumber", -200.0f, 3, {1, 1, 1, 1}),
          {"PadOfWindows", [](Model& m) {
             m.integers("windows", {-1, 8, 8});
             m.node("Reshape", {"image", "windows"}, "w");
             m.integers("pads", {0, 1, 0, 0, 0, 2});
             m.node("Pad", {"w", "pads"}, "p");
             m.integers("back", {-1, 3, 9, 10});
             m.node("Reshape", {"p", "back"}, "x");
           }}};
}

std::vector<OperatorCase> windows() {
  return {{"PoolsOfRows",
           [](Model& m) {
             m.integers("shape", {0, 3, 64});
             m.node("Reshape", {"image", "shape"}, "rows");
             onnx::Node& most = m.node("MaxPool", {"rows"}, "most");
             Model::attribute(most, "kernel_shape", Shape64{3});
             Model::attribute(most, "strides", Shape64{2});
             Model::attribute(most, "pads", Shape64{1, 0});
             onnx::Node& mean = m.node("AveragePool", {"most"}, "mean");
             Model::attribute(mean, "kernel_shape", Shape64{4});
             Model::attribute(mean, "strides", Shape64{3});
             m.node("GlobalAveragePool", {"mean"}, "all");
             m.node("Add", {"mean", "all"}, "x");
           }},
          {"ConvolutionOfRows",
           [](Model& m) {
             m.array("weights", {6, 1, 5}, noise(30));
             m.array("biases", {6}, noise(6));
             m.integers("shape", {0, 3, 64});
             m.node("Reshape", {"image", "shape"}, "rows");
             onnx::Node& node = m.node("Conv", {"rows", "weights", "biases"}, "x");
             Model::attribute(node, "group", 3);
             Model::attribute(node, "strides", Shape64{2});
             Model::attribute(node, "dilations", Shape64{2});
             Model::attribute(node, "pads", Shape64{3, 1});
           }},
          {"MorePadsBefore",
           [](Model& m) {
             m.array("weights", {2, 3, 4, 2}, noise(48));
             onnx::Node& node = m.node("Conv", {"image", "weights"}, "conv");
             text(node, "auto_pad", "SAME_LOWER");
             Model::attribute(node, "strides", Shape64{3, 1});
             onnx::Node& pool = m.node("MaxPool", {"conv"}, "x");
             text(pool, "auto_pad", "SAME_LOWER");
             Model::attribute(pool, "kernel_shape", Shape64{2, 2});
           }},
          {"ConvOfWindows",
           [](Model& m) {
             m.integers("windows", {-1, 1, 8, 8});  // each channel is one window
             m.node("Reshape", {"image", "windows"}, "v");
             m.array("w", {4, 1, 3, 3}, noise(36));
             onnx::Node& conv = m.node("Conv", {"v", "w"}, "c");
             Model::attribute(conv, "strides", {2, 1});
             Model::attribute(conv, "pads", {1, 0, 0, 1});
             m.array("w2", {4, 1, 3, 3}, noise(36));
             onnx::Node& depthwise = m.node("Conv", {"c", "w2"}, "d");
             Model::attribute(depthwise, "group", 4);
             Model::attribute(depthwise, "pads", {1, 1, 1, 1});
             m.integers("back", {-1, 12, 4, 7});
             m.node("Reshape", {"d", "back"}, "x");
           }},
          {"ConvOfVolumes", [](Model& m) {
             m.integers("axis", {1});
             m.node("Unsqueeze", {"image", "axis"}, "v");  // [batch, 1, 3, 8, 8]
             m.array("w", {4, 1, 3, 5, 1}, noise(60));
             m.array("b", {4}, noise(4));
             onnx::Node& conv = m.node("Conv", {"v", "w", "b"}, "x");
             Model::attribute(conv, "kernel_shape", {3, 5, 1});
             Model::attribute(conv, "pads", {1, 2, 0, 1, 2, 0});
           }}};
}

INSTANTIATE_TEST_SUITE_P(Pads, OnnxOperators, ::testing::ValuesIn(pads()), name_of);
INSTANTIATE_TEST_SUITE_P(Windows, OnnxOperators, ::testing::ValuesIn(windows()), name_of);

}  // namespace
}  // namespace carillon::testing
