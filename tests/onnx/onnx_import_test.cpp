#include <gmock/gmock.h>

#include <algorithm>
#include <numbers>

#include "tests/onnx/import_fixture.h"

namespace carillon::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;

TEST_F(OnnxImport, ComputesTheNetworkOfTheFileWithItsValues) {
  Model model;
  model.array("conv.weight", {4, 3, 1, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
  model.node("Conv", {"image", "conv.weight"}, "c");
  model.array("bn.weight", {4}, {1, 1, 2, 1});
  model.array("bn.bias", {4}, {0, 10, 0, 0});
  model.array("bn.running_mean", {4}, {0, 0, 0, 100});
  model.array("bn.running_var", {4}, {1, 1, 1, 4});
  model.node("BatchNormalization", {"c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}, "n");
  model.node("Relu", {"n"}, "r");
  model.finish("r", 4);
  const Network network = read(model);
  EXPECT_EQ(network.name, "net");
  EXPECT_EQ(network.torch_names.at("conv/weights"), "conv.weight");
  EXPECT_EQ(network.torch_names.at("bn/moving_mean"), "bn.running_mean");
  EXPECT_EQ(network.torch_names.at("fc/biases"), "fc.bias");
  // Before the batch norm, the channels are 20, 40, 60 and 120; after it, they are 20, 50, 120 and 10.
  const std::vector<float> y = outputs(network, {20, 40, 60});
  EXPECT_NEAR(y[0], 0.25 * 50 + 0.5 * 120 + 0.75 * 10 + 1, 1e-2);
  EXPECT_NEAR(y[1], 1.0 * 20 + 1.25 * 50 + 1.5 * 120 + 1.75 * 10 - 1, 1e-2);
}

TEST_F(OnnxImport, FoldsTheArithmeticOfShapes) {
  Model model;
  model.node("Shape", {"image"}, "shape");
  model.integers("zero", {0});
  model.integers("minus", {-1});
  model.node("Gather", {"shape", "zero"}, "batch");
  Model::attribute(model.node("Concat", {"batch", "minus"}, "flat_shape"), "axis", 0);
  model.node("Reshape", {"image", "flat_shape"}, "flat");
  std::vector<float> weights(2 * 192, 0.0f);
  weights[65] = 1.0f;         // the weight belongs to channel 1; if channels were last, it would belong to channel 2
  weights[192 + 191] = 1.0f;  // the last pixel of channel 2
  model.array("fc.weight", {2, 192}, weights);
  Model::attribute(model.node("Gemm", {"flat", "fc.weight"}, "y"), "transB", 1);
  EXPECT_THAT(outputs(read(model), {1, 2, 3}), ElementsAre(FloatNear(2.0f, 1e-5f), FloatNear(3.0f, 1e-5f)));
}

/// By default, PyTorch exports a network for the number of images of the example.
TEST_F(OnnxImport, FilesForAFixedNumberOfImagesReadAnyBatch) {
  for (const std::int64_t images : {-1, 1, 3}) {
    Model model({images, 3, 8, 8});
    const std::int64_t count = std::max<std::int64_t>(images, 1);
    model.array("token", {1, 1, 3}, {6, 7, 8});
    model.integers("tokens", {count, 1, 3});
    model.integers("rows", {count, 3, 64});
    model.integers("windows", {count * 3, 64});  // a window is a channel
    model.integers("heads", {65, count * 3, 1});
    model.integers("last", {count, 3, 65, 1});
    model.node("Reshape", {"image", "rows"}, "by_row");
    model.node("Reshape", {"by_row", "windows"}, "by_window");
    model.node("Reshape", {"by_window", "rows"}, "back");
    Model::attribute(model.node("Transpose", {"back"}, "positions"), "perm", {0, 2, 1});
    model.node("Expand", {"token", "tokens"}, "repeated");
    Model::attribute(model.node("Concat", {"repeated", "positions"}, "all"), "axis", 1);
    Model::attribute(model.node("Transpose", {"all"}, "first"), "perm", {1, 0, 2});  // [65, images, 3]
    model.node("Reshape", {"first", "heads"}, "by_head");
    Model::attribute(model.node("Transpose", {"by_head"}, "turned"), "perm", {1, 0, 2});
    model.node("Reshape", {"turned", "last"}, "images");
    model.finish("images");
    const double second = (64 * 20.0 + 7) / 65, third = (64 * 30.0 + 8) / 65;
    EXPECT_NEAR(outputs(read(model), {10, 20, 30})[0], 0.25 * second + 0.5 * third + 1, 1e-4) << images;
  }
}

TEST_F(OnnxImport, AFileForOneImageMayRemoveTheAxisOfTheBatch) {
  Model model({1, 3, 8, 8});
  model.integers("axis", {0});
  model.integers("images", {1, 3, 8, 8});
  model.node("Squeeze", {"image", "axis"}, "channels");  // [3, 8, 8]
  onnx::Node& mean = model.node("ReduceMean", {"channels"}, "mean");
  Model::attribute(mean, "axes", std::vector<std::int64_t>{1});
  model.node("Sub", {"channels", "mean"}, "centred");
  model.node("Add", {"centred", "channels"}, "sum");
  model.node("Reshape", {"sum", "images"}, "result");
  model.finish("result");
  EXPECT_NEAR(outputs(read(model), {10, 20, 30})[0], 0.25 * 20 + 0.5 * 30 + 1, 1e-4);
}

TEST_F(OnnxImport, ATransposedImageKeepsItsLayout) {
  Model model;
  Model::attribute(model.node("Transpose", {"image"}, "last"), "perm", {0, 2, 3, 1});
  model.array("mlp.weight", {3, 3}, {1, 0, 0, 0, 2, 0, 0, 0, 3});
  model.node("MatMul", {"last", "mlp.weight"}, "mixed");
  Model::attribute(model.node("Transpose", {"mixed"}, "first"), "perm", {0, 3, 1, 2});
  model.finish("first");
  const Network network = read(model);
  for (const OpDescription& op : network.ops) EXPECT_NE(op.type->name, "transpose") << op.name;
  EXPECT_NEAR(outputs(network, {1, 1, 1})[0], 0.25 * 2 + 0.5 * 3 + 1, 1e-5);
}

/// Adds self-attention with two heads of size 2. The tokens are the 64 pixels, with different position embeddings.
/// `one_layer`: one dense layer computes q, k and v. `splits_softmax`: an addition of 0 keeps the products apart.
void add_attention(Model& model, bool one_layer, bool splits_softmax,
                   float factor = 1.0f / std::numbers::sqrt2_v<float>) {
  const auto noise = [](std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 37 + 11) % 29) / 29.0f - 0.5f;
    return values;
  };
  const auto shaped = [&](const std::string& x, const std::vector<std::int64_t>& shape, const std::string& y) {
    model.integers(y + "_shape", shape);
    model.node("Reshape", {x, y + "_shape"}, y);
  };
  const auto turned = [&](const std::string& x, const std::vector<std::int64_t>& axes, const std::string& y) {
    Model::attribute(model.node("Transpose", {x}, y), "perm", axes);
  };
  shaped("image", {0, 3, 64}, "columns");
  turned("columns", {0, 2, 1}, "pixels");
  model.array("pos", {64, 3}, noise(192));
  model.node("Add", {"pixels", "pos"}, "tokens");
  if (one_layer) {
    model.array("qkv.weight", {3, 12}, noise(36));
    model.node("MatMul", {"tokens", "qkv.weight"}, "qkv");
    shaped("qkv", {0, 64, 3, 2, 2}, "parts");
    turned("parts", {2, 0, 3, 1, 4}, "first");
    for (const int i : {0, 1, 2}) {
      const std::string index = "index" + std::to_string(i);
      onnx::Tensor& one = *model.graph().add_initializer();
      one.set_name(index);
      one.set_data_type(onnx::Tensor::INT64);
      one.add_int64_data(i);
      Model::attribute(model.node("Gather", {"first", index}, std::string(1, "qkv"[i])), "axis", 0);
    }
  } else {
    for (const std::string part : {"q", "k", "v"}) {
      std::vector<float> weights = noise(12);
      for (float& weight : weights) weight *= part == "k" ? 2.0f : 1.0f;
      model.array(part + ".weight", {3, 4}, weights);
      model.node("MatMul", {"tokens", part + ".weight"}, part + "_layer");
      shaped(part + "_layer", {0, 64, 2, 2}, part + "_heads");
      turned(part + "_heads", {0, 2, 1, 3}, part);
    }
  }
  turned("k", {0, 1, 3, 2}, "k_turned");
  model.node("MatMul", {"q", "k_turned"}, "product");
  model.number("factor", factor);
  model.node("Mul", {"product", "factor"}, "scores");
  model.number("nothing", 0.0f);
  if (splits_softmax) model.node("Add", {"scores", "nothing"}, "added");
  Model::attribute(model.node("Softmax", {splits_softmax ? "added" : "scores"}, "p"), "axis", -1);
  model.node("MatMul", {"p", "v"}, "heads");
  turned("heads", {0, 2, 1, 3}, "joined");
  shaped("joined", {0, 64, 4}, "rows");
  turned("rows", {0, 2, 1}, "channels");
  shaped("channels", {0, 4, 8, 8}, "result");
  model.finish("result", 4);
}

std::vector<std::string_view> types_of(const Network& network) {
  std::vector<std::string_view> types;
  for (const OpDescription& op : network.ops) types.push_back(op.type->name);
  return types;
}

TEST_F(OnnxImport, OneOpComputesAnAttention) {
  for (const bool one_layer : {true, false}) {
    Model fused, split;
    add_attention(fused, one_layer, false);
    add_attention(split, one_layer, true);
    const Network attention = read(fused), products = read(split);
    EXPECT_THAT(types_of(attention), Contains("attention"));
    EXPECT_THAT(types_of(attention), Not(Contains(AnyOf("softmax", "matmul", "split", "slice", "transpose"))));
    EXPECT_EQ(std::ranges::count(types_of(attention), "concat"), one_layer ? 0 : 1);
    EXPECT_THAT(types_of(products), Contains("softmax"));
    EXPECT_THAT(outputs(attention, {1, 2, 3}), Pointwise(FloatNear(1e-4f), outputs(products, {1, 2, 3})));
  }
}

TEST_F(OnnxImport, AnAttentionWithAnotherScaleIsNotReplaced) {
  Model model;
  add_attention(model, true, false, 0.5f);
  EXPECT_THAT(types_of(read(model)), Contains("softmax"));
}

TEST_F(OnnxImport, PointConvolutionsOfOneArrayShareTheirVariable) {
  Model model;
  model.array("mlp.weight", {3, 3, 1, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  model.node("GlobalAveragePool", {"image"}, "mean");
  model.node("Relu", {"mean"}, "most");
  model.node("Conv", {"mean", "mlp.weight"}, "a");
  model.node("Conv", {"most", "mlp.weight"}, "b");
  model.node("Add", {"a", "b"}, "sum");
  model.finish("sum");
  const Network network = read(model);
  EXPECT_EQ(std::ranges::count_if(*network.given,
                                  [](const GivenValues& one) { return one.variable.find("mlp") != std::string::npos; }),
            1);
}

TEST_F(OnnxImport, OtherOutputsGiveTheLastLayerNewValues) {
  Model model;
  model.finish("image");
  const Network network = read(model, {}, 5);
  ASSERT_EQ(network.notes.size(), 1u);
  EXPECT_THAT(network.notes[0], HasSubstr("the layer fc gets new values: 5 outputs in place of 2"));
  EXPECT_TRUE(network.given->empty());
  EXPECT_EQ(read(model).notes.size(), 0u);
  EXPECT_EQ(read(model).given->size(), 2u);
  EXPECT_TRUE(read(model, {.fresh_weights = true}).given->empty());
}

TEST_F(OnnxImport, TheHeadCanBeNamed) {
  Model model;
  model.finish("image");
  EXPECT_EQ(read(model, {.head = "fc"}, 5).notes.size(), 1u);
  const Failure failure = failure_of([&] { read(model, {.head = "head"}); });
  EXPECT_EQ(failure.code, ExitCode::usage);
  EXPECT_THAT(failure.text, HasSubstr("--head head: no layer of"));
  EXPECT_THAT(failure.text, HasSubstr("its last layers are fc"));
}

TEST_F(OnnxImport, ProbabilitiesAtTheEndAreLeftToTheLoss) {
  Model model;
  model.finish("image");
  model.graph().mutable_node(2)->set_output(0, "logits");
  model.node("Softmax", {"logits"}, "y");
  EXPECT_NEAR(outputs(read(model), {0, 0, 0})[0], 1.0, 1e-5);
}

TEST_F(OnnxImport, AFileWithoutNormsIsNoted) {
  const auto notes_with = [&](bool has_norm, const std::string& producer = "pytorch") {
    Model model;
    model.model().set_producer_name(producer);
    model.array("conv.weight", {3, 3, 1, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
    std::string x = "image";
    for (int i = 0; i < 5; ++i) {
      const std::string y = "c" + std::to_string(i);
      model.node("Conv", {x, "conv.weight"}, y);
      x = y;
    }
    if (has_norm) {
      for (const char* const name : {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}) {
        model.array(name, {3}, {1, 1, 1});
      }
      model.node("BatchNormalization", {x, "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}, "n");
      x = "n";
    }
    model.finish(x);
    return read(model).notes;
  };
  EXPECT_TRUE(notes_with(true).empty());
  ASSERT_EQ(notes_with(false).size(), 1u);
  EXPECT_THAT(notes_with(false)[0], HasSubstr("torch.onnx.TrainingMode.PRESERVE"));
  EXPECT_THAT(notes_with(false, "tf2onnx")[0], AllOf(HasSubstr("no batch norms"), Not(HasSubstr("torch"))));
}

TEST_F(OnnxImport, ArraysThatAreSubtractedOrDividedByAreTrained) {
  Model model;
  model.array("mean", {1, 3, 1, 1}, {1, 2, 3});
  model.array("deviation", {3, 1, 1}, {2, 4, 5});
  model.array("whole", {1, 3, 1, 1}, {50, 60, 70});
  model.node("Sub", {"image", "mean"}, "centred");
  model.node("Div", {"centred", "deviation"}, "scaled");
  model.node("Sub", {"whole", "scaled"}, "rest");
  model.finish("rest");
  const Network network = read(model);
  for (const OpDescription& op : network.ops) EXPECT_FALSE(op.attributes.find("trains")) << op.name;
  EXPECT_EQ(std::ranges::count_if(network.ops, [](const OpDescription& op) { return op.type->name == "variable"; }), 3);
  // The channels become 50 - (11 - 1) / 2, 60 - (22 - 2) / 4 and 70 - (33 - 3) / 5.
  EXPECT_NEAR(outputs(network, {11, 22, 33})[0], 0.25 * 55 + 0.5 * 64 + 1, 1e-3);
}

TEST_F(OnnxImport, LayersThatReadOneArrayShareAVariable) {
  Model model;
  model.array("conv.weight", {3, 3, 1, 1}, {0, 1, 0, 0, 0, 1, 1, 0, 0});
  model.node("Conv", {"image", "conv.weight"}, "a");
  model.node("Conv", {"a", "conv.weight"}, "b");
  model.finish("b");
  const Network network = read(model);
  EXPECT_EQ(build_network(network, {}).graph.parameters().size(), 3u);
  EXPECT_EQ(network.given->size(), 3u);
  EXPECT_NEAR(outputs(network, {10, 20, 30})[0], 0.25 * 10 + 0.5 * 20 + 1, 1e-4);  // the channels are 30, 10 and 20
}

TEST_F(OnnxImport, NormsAndArraysThatAreReadTwiceShareTheirVariables) {
  Model model;
  model.array("norm.weight", {3}, {1, 2, 3});
  model.array("norm.bias", {3}, {4, 5, 6});
  model.array("norm.mean", {3}, {0, 0, 0});
  model.array("norm.variance", {3}, {1, 1, 1});
  model.array("offset", {3, 1, 1}, {1, 2, 1});
  model.array("rows.weight", {3, 3, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  model.integers("rows", {0, 3, 64});
  model.integers("images", {0, 3, 8, 8});
  const std::vector<std::string> values{"image", "first", "second"};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string end = std::to_string(i);
    model.node("BatchNormalization", {values[i], "norm.weight", "norm.bias", "norm.mean", "norm.variance"},
               "norm" + end);
    model.node("Reshape", {"norm" + end, "rows"}, "rows" + end);
    model.node("Conv", {"rows" + end, "rows.weight"}, "conv" + end);
    model.node("Reshape", {"conv" + end, "images"}, "images" + end);
    model.node("Add", {"images" + end, "offset"}, values[i + 1]);
  }
  model.finish("second");
  const Network network = read(model);
  // The two layers of the end, scale and offset of the norm, the filters, and the array.
  EXPECT_EQ(build_network(network, {}).graph.parameters().size(), 2u + 2u + 1u + 1u);
}

/// PyTorch's exporter merges equal arrays, such as biases that are 0 before a training.
TEST_F(OnnxImport, ArraysOfOneNumberAreNotShared) {
  Model model;
  model.array("zero", {3}, {0, 0, 0});
  model.array("one.weight", {3, 3, 1, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  model.array("two.weight", {3, 3, 1, 1}, {2, 0, 0, 0, 2, 0, 0, 0, 2});
  model.node("Conv", {"image", "one.weight", "zero"}, "first");
  model.node("Conv", {"first", "two.weight", "zero"}, "second");
  model.finish("second");
  const Network network = read(model);
  EXPECT_EQ(build_network(network, {}).graph.parameters().size(), 6u);
  EXPECT_EQ(network.torch_names.at("one/biases"), "zero");
  EXPECT_EQ(network.torch_names.at("two/biases"), "two/biases");
}

/// For example, an auxiliary classifier of a training.
TEST_F(OnnxImport, BranchesThatTheOutputDoesNotNeedAreOmitted) {
  Model model;
  model.array("aux.weight", {4, 3, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  model.node("Conv", {"image", "aux.weight"}, "aux");
  model.node("Unknown", {"aux"}, "aux_output");
  model.finish("image");
  EXPECT_EQ(build_network(read(model), {}).graph.parameters().size(), 2u);
}

/// A computed array has other values than the array of the file, so it must not have its name.
TEST_F(OnnxImport, ComputedArraysHaveOwnNamesAfterATransposition) {
  Model model;
  model.array("table", {3, 8}, std::vector<float>(24, 1.0f));
  model.array("offset", {8}, std::vector<float>(8, 0.5f));
  model.node("Add", {"table", "offset"}, "sum");
  Model::attribute(model.node("Transpose", {"sum"}, "turned"), "perm", {1, 0});
  Model::attribute(model.node("Transpose", {"turned"}, "back"), "perm", {1, 0});
  model.integers("shape", {1, 3, 1, 8});
  model.node("Reshape", {"back", "shape"}, "columns");
  model.node("Add", {"image", "columns"}, "x");
  model.finish("x");
  for (const auto& [variable, name] : read(model).torch_names) EXPECT_NE(name, "table") << variable;
}

TEST_F(OnnxImport, AnErfWithAnotherSumIsNoGelu) {
  Model model;
  const auto written_out = [](float term) {
    Model made;
    for (const auto& [name, value] :
         {std::pair{"root", std::numbers::sqrt2_v<float>}, {"term", term}, {"half", 0.5f}}) {
      onnx::Attribute& one = *made.node("Constant", {}, name).add_attribute();
      one.set_name("value_float");
      one.set_type(onnx::Attribute::FLOAT);
      one.set_f(value);
    }
    made.node("Div", {"image", "root"}, "d");
    made.node("Erf", {"d"}, "e");
    made.node("Add", {"e", "term"}, "a");
    made.node("Mul", {"image", "a"}, "m");
    made.node("Mul", {"m", "half"}, "g");
    made.finish("g");
    return made;
  };
  Model gelu = written_out(1.0f), other = written_out(3.0f);
  EXPECT_TRUE(std::ranges::any_of(read(gelu).ops, [](const OpDescription& op) { return op.type->name == "gelu"; }));
  // For large x, erf is 1, so the results are x and 2 x.
  EXPECT_NEAR(outputs(read(gelu), {100, 0, 0})[1], 0.75 * 100 - 1, 1e-3);
  EXPECT_NEAR(outputs(read(other), {100, 0, 0})[1], 0.75 * 200 - 1, 1e-3);
}

}  // namespace
}  // namespace carillon::testing
