// Imports norms, reductions, products and arithmetic of arrays, and compares them with onnxruntime.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/onnx/operator_cases.h"

namespace carillon::testing {
namespace {

TEST_P(OnnxOperators, ComputeTheValuesOfOnnxruntime) {
  Model model;
  model.model().mutable_opset_import(0)->set_version(GetParam().operator_set);
  GetParam().add(model);
  end(model);
  const NoiseBatch samples(1, batch_size, 3 * 8 * 8);
  const std::vector<float> found = outputs_for(read(model, {}, 0), samples.batch().images);
  const std::vector<float> y = expected(model, samples);
  ASSERT_EQ(found.size(), y.size());
  float largest = 0.0f;
  for (const float value : y) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0.0f);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(found[i], y[i], 2e-5f * largest) << i;
}

std::vector<OperatorCase> norms() {
  return {
      {"InstanceNormalization",
       [](Model& m) {
         m.array("scale", {3}, {1.0f, 2.0f, -0.5f});
         m.array("bias", {3}, {0.0f, 1.0f, 3.0f});
         m.node("InstanceNormalization", {"image", "scale", "bias"}, "x");
       }},
      // Adds the nodes to which PyTorch exports a group norm.
      {"GroupsByReshapes",
       [](Model& m) {
         m.array("wider", {6, 3, 1, 1}, noise(18));
         m.node("Conv", {"image", "wider"}, "c");
         m.integers("groups", {0, 2, -1});
         m.integers("back", {-1, 6, 8, 8});
         m.node("Reshape", {"c", "groups"}, "g");
         for (const auto& [name, value] : {std::pair("one", 1.0f), std::pair("zero", 0.0f)}) {
           onnx::Attribute& values = *m.node("Constant", {}, name).add_attribute();
           values.set_name("value_floats");
           values.set_type(onnx::Attribute::FLOATS);
           for (int i = 0; i < 2; ++i) values.add_floats(value);
         }
         m.node("InstanceNormalization", {"g", "one", "zero"}, "n");
         m.node("Reshape", {"n", "back"}, "r");
         m.array("gamma", {6, 1, 1}, noise(6, 1.0f));
         m.node("Mul", {"r", "gamma"}, "x");
       }},
      {"GroupNormalization",
       [](Model& m) {
         m.array("wider", {6, 3, 1, 1}, noise(18));
         m.node("Conv", {"image", "wider"}, "c");
         m.array("scale", {6}, noise(6, 1.0f));
         m.array("bias", {6}, noise(6));
         Model::attribute(m.node("GroupNormalization", {"c", "scale", "bias"}, "x"), "num_groups", 3);
       },
       21},
      {"OneGroup",
       [](Model& m) {
         m.array("scale", {3}, {1.0f, 2.0f, -0.5f});
         m.array("bias", {3}, {0.0f, 1.0f, 3.0f});
         Model::attribute(m.node("GroupNormalization", {"image", "scale", "bias"}, "x"), "num_groups", 1);
       },
       21},
      {"BatchNormOfWindows",
       [](Model& m) {
         for (const auto& [name, middle] :
              {std::pair("gamma", 1.0f), {"beta", 0.0f}, {"mean", 0.0f}, {"variance", 2.0f}})
           m.array(name, {8}, noise(8, middle));
         m.integers("rows", {-1, 24, 8});
         m.node("Reshape", {"image", "rows"}, "r");
         Model::attribute(m.node("Flatten", {"r"}, "f"), "axis", 2);
         m.node("BatchNormalization", {"f", "gamma", "beta", "mean", "variance"}, "n");
         m.node("Reshape", {"n", "rows"}, "x");
       }},
      {"StandardisedWeights",
       [](Model& m) {
         m.array("w", {4, 3, 3, 3}, noise(108));
         m.integers("rows", {1, 4, -1});
         m.integers("filters", {4, 3, 3, 3});
         m.array("gain", {4}, noise(4, 1.0f));
         m.array("zero", {4}, {0, 0, 0, 0});
         m.node("Reshape", {"w", "rows"}, "r");
         onnx::Node& norm = m.node("BatchNormalization", {"r", "gain", "zero", "zero", "gain"}, "n");
         norm.add_output("running_mean");
         norm.add_output("running_variance");
         Model::attribute(norm, "training_mode", 1);
         m.node("Reshape", {"n", "filters"}, "f");
         m.node("Conv", {"image", "f"}, "x");
       }},
  };
}

std::vector<OperatorCase> reductions() {
  return {{"LargestOfChannels",
           [](Model& m) { Model::attribute(m.node("ReduceMax", {"image"}, "x"), "axes", Shape64{1}); }},
          {"LargestOfRows",
           [](Model& m) {
             onnx::Node& node = m.node("ReduceMax", {"image"}, "x");
             Model::attribute(node, "axes", Shape64{2});
             Model::attribute(node, "keepdims", 0);
           }},
          {"LargestOfAll",
           [](Model& m) {
             Model::attribute(m.node("ReduceMax", {"image"}, "x"), "axes", Shape64{1, -1, 2});
           }},
          {"LargestOfImages", [](Model& m) { m.node("GlobalMaxPool", {"image"}, "x"); }},
          {"LargestOfLargeImages",
           [](Model& m) {
             m.array("scales", {4}, {1.0f, 1.0f, 3.0f, 5.0f});
             m.node("Resize", {"image", "", "scales"}, "large");
             m.node("GlobalMaxPool", {"large"}, "x");
           }},
          {"MeanOfSamples", [](Model& m) {
             onnx::Node& node = m.node("ReduceMean", {"image"}, "mean");
             Model::attribute(node, "axes", Shape64{1, 2, 3});
             Model::attribute(node, "keepdims", 0);
             m.integers("axes", {1, 2, 3});
             m.node("Unsqueeze", {"mean", "axes"}, "wide");
             m.node("Mul", {"image", "wide"}, "x");
           }}};
}

std::vector<OperatorCase> products() {
  return {{"AttentionWithTheBatchSecond",  // as torch.nn.MultiheadAttention: [tokens, batch, width]
           [](Model& m) {
             m.array("scale", {8, 1, 8}, noise(64, 1.0f));
             m.array("weights", {24, 24}, noise(576));
             m.array("bias", {24}, noise(24));
             m.integers("rows", {0, 0, -1});
             m.integers("heads", {8, -1, 8});
             m.integers("joined", {-1, 24});
             m.integers("parts", {8, -1, 24});
             Model::attribute(m.node("Transpose", {"image"}, "turned"), "perm", {2, 0, 1, 3});
             m.node("Reshape", {"turned", "rows"}, "tokens");  // [8, batch, 24]
             m.node("Reshape", {"tokens", "heads"}, "q");      // [8, batch * 3, 8]
             m.node("Mul", {"q", "scale"}, "scaled");
             Model::attribute(m.node("Transpose", {"scaled"}, "by_head"), "perm", {1, 0, 2});
             Model::attribute(m.node("Transpose", {"scaled"}, "columns"), "perm", {1, 2, 0});
             m.node("MatMul", {"by_head", "columns"}, "scores");  // [batch * 3, 8, 8]
             Model::attribute(m.node("Softmax", {"scores"}, "weighted"), "axis", -1);
             m.node("MatMul", {"weighted", "by_head"}, "mixed");
             Model::attribute(m.node("Transpose", {"mixed"}, "by_token"), "perm", {1, 0, 2});
             m.node("Reshape", {"by_token", "joined"}, "all_rows");  // [8 * batch, 24]
             m.node("Gemm", {"all_rows", "weights", "bias"}, "layer");
             m.node("Reshape", {"layer", "parts"}, "y_tokens");  // [8, batch, 24]
             m.node("Add", {"y_tokens", "tokens"}, "sum");
             Model::attribute(m.node("Transpose", {"sum"}, "x"), "perm", {1, 0, 2});
           }},
          {"FirstTokenWithTheBatchSecond",
           [](Model& m) {
             m.array("position", {8, 1, 24}, noise(192));
             m.integers("rows", {0, 0, -1});
             m.number("zero", 0.0f);
             Model::attribute(m.node("Transpose", {"image"}, "turned"), "perm", {2, 0, 1, 3});
             m.node("Reshape", {"turned", "rows"}, "tokens");
             m.node("Add", {"tokens", "position"}, "placed");
             m.integers("start", {0});
             m.integers("end", {1});
             m.node("Slice", {"placed", "start", "end", "start"}, "first");
             m.node("Squeeze", {"first", "start"}, "x");
           }},
          {"ProductWithRepeatedAxis",
           [](Model& m) {
             Model::attribute(m.node("ReduceMean", {"image"}, "mean"), "axes", Shape64{1});
             m.node("MatMul", {"image", "mean"}, "x");
           }},
          {"ProductWithAnArray",
           [](Model& m) {
             m.array("w", {3, 8, 5}, noise(120));
             m.node("MatMul", {"image", "w"}, "x");
           }},
          {"ArrayTimesImage",
           [](Model& m) {
             m.array("w", {5, 8}, noise(40));
             m.node("MatMul", {"w", "image"}, "x");
           }},
          {"SumOfRowsAndColumns",
           [](Model& m) {
             Model::attribute(m.node("ReduceMean", {"image"}, "rows"), "axes", Shape64{3});
             Model::attribute(m.node("ReduceMean", {"image"}, "columns"), "axes", Shape64{2});
             m.node("Add", {"rows", "columns"}, "x");
           }},
          {"EinsumWithAnArray",
           [](Model& m) {
             m.array("w", {8, 5, 8}, noise(320));
             text(m.node("Einsum", {"image", "w"}, "x"), "equation", "bchw,hkw->bchk");
           }},
          {"EinsumOfValues", [](Model& m) {
             m.node("Sigmoid", {"image"}, "s");
             m.node("Sub", {"image", "s"}, "d");
             text(m.node("Einsum", {"image", "d"}, "e"), "equation", "bchw,bkhw->bkhc");
             m.array("small", {1}, {1e-3f});
             m.node("Mul", {"e", "small"}, "x");
           }}};
}

std::vector<OperatorCase> arrays() {
  return {{"NumberOfAnArray",
           [](Model& m) {
             m.array("weights", {3}, {0.5f, -2.0f, 3.0f});
             m.node("Softmax", {"weights"}, "parts");
             m.node("Identity", {"parts"}, "copy");
             m.integers("first", {0});
             m.integers("scalar", {});
             m.node("Reshape", {"first", "scalar"}, "place");
             Model::attribute(m.node("Gather", {"copy", "place"}, "factor"), "axis", 0);
             m.node("Mul", {"image", "factor"}, "x");
           }},
          {"GatherOfPlacesOfAnArray",
           [](Model& m) {
             m.array("table", {3, 4, 8}, noise(96));
             m.integers("flat", {0, 1, 2, 3, -1, 0, 0, 1, 1, 1, 2, -4});
             m.integers("shape", {3, 2, 2});
             m.node("Reshape", {"flat", "shape"}, "places");
             m.node("GatherND", {"table", "places"}, "rows");  // [3, 2, 8]
             m.integers("grid", {0, 3, 4, 2, 8});
             m.node("Reshape", {"image", "grid"}, "images");
             Model::attribute(m.node("Transpose", {"images"}, "turned"), "perm", {0, 2, 1, 3, 4});
             m.node("Add", {"turned", "rows"}, "x");
           }},
          {"ArrayAndItsTransposition",
           [](Model& m) {
             m.array("w", {8, 8}, noise(64));
             Model::attribute(m.node("Transpose", {"w"}, "turned"), "perm", {1, 0});
             m.node("MatMul", {"image", "w"}, "first");
             m.node("Relu", {"first"}, "positive");
             m.node("MatMul", {"positive", "turned"}, "x");
           }},
          {"GatherOfOneRowOfAnArray",
           [](Model& m) {
             m.array("table", {4, 8}, noise(32));
             m.integers("place", {2});
             m.node("GatherND", {"table", "place"}, "row");
             Model::attribute(m.node("Softmax", {"row"}, "parts"), "axis", 0);
             m.node("Mul", {"image", "parts"}, "x");
           }},
          {"ArrayThatIsReadAsAValueAndAsWeights",
           [](Model& m) {
             m.array("scale", {8}, noise(8));
             m.node("Softmax", {"scale"}, "parts");
             m.node("LayerNormalization", {"image", "scale"}, "norm");
             m.node("Mul", {"norm", "parts"}, "x");
           }},
          {"GemmOfArrays",
           [](Model& m) {
             m.array("places", {8, 2}, noise(16));
             m.array("weights", {5, 2}, noise(10));
             m.array("biases", {5}, noise(5));
             m.array("last", {5, 8}, noise(40));
             Model::attribute(m.node("Gemm", {"places", "weights", "biases"}, "hidden"), "transB", 1);
             m.node("Relu", {"hidden"}, "positive");
             m.node("Gemm", {"positive", "last"}, "table");
             m.node("Add", {"image", "table"}, "x");
           }},
          {"OneHot",
           [](Model& m) {
             m.integers("indices", {2, 0, -1, 1, 2, 2, 0, 1});
             m.integers("depth", {3});
             m.array("values", {2}, {-0.5f, 2.0f});
             Model::attribute(m.node("OneHot", {"indices", "depth", "values"}, "rows"), "axis", 0);  // [3, 8]
             m.integers("shape", {3, 1, 8});
             m.node("Reshape", {"rows", "shape"}, "factors");
             m.node("Mul", {"image", "factors"}, "x");
           }},
          {"SoftmaxOfAnArray", [](Model& m) {
             m.array("weights", {3, 1, 8}, noise(24));
             Model::attribute(m.node("Softmax", {"weights"}, "parts"), "axis", -1);
             m.node("Mul", {"image", "parts"}, "x");
           }}};
}

INSTANTIATE_TEST_SUITE_P(Norms, OnnxOperators, ::testing::ValuesIn(norms()), name_of);
INSTANTIATE_TEST_SUITE_P(Reductions, OnnxOperators, ::testing::ValuesIn(reductions()), name_of);
INSTANTIATE_TEST_SUITE_P(Products, OnnxOperators, ::testing::ValuesIn(products()), name_of);
INSTANTIATE_TEST_SUITE_P(Arrays, OnnxOperators, ::testing::ValuesIn(arrays()), name_of);

}  // namespace
}  // namespace carillon::testing
