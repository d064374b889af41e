// Imports single operators, and compares them with onnxruntime.
#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

#include "src/checkpoint/array_files.h"
#include "tests/onnx/import_fixture.h"

namespace carillon::testing {
namespace {

using Shape64 = std::vector<std::int64_t>;

void text(onnx::Node& node, const std::string& name, const std::string& value) {
  onnx::Attribute& one = *node.add_attribute();
  one.set_name(name);
  one.set_type(onnx::Attribute::STRING);
  one.set_s(value);
}

std::vector<float> noise(std::size_t count, float middle = 0.0f) {
  std::mt19937 draws(3);
  std::uniform_real_distribution<float> uniform(middle - 1.0f, middle + 1.0f);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(draws);
  return values;
}

/// Adds nodes that compute "x" from "image", a value [batch, 3, 8, 8].
struct OperatorCase {
  std::string name;
  std::function<void(Model&)> add;
  std::int64_t operator_set = 17;
};
std::ostream& operator<<(std::ostream& out, const OperatorCase& one) { return out << one.name; }

class OnnxOperators : public OnnxImport, public ::testing::WithParamInterface<OperatorCase> {
 protected:
  static constexpr std::size_t batch_size = 3;

  /// Ends the model with an output [batch, elements of x].
  static void end(Model& model) { model.node("Flatten", {"x"}, "y"); }

  std::vector<float> expected(Model& model, const NoiseBatch& samples) {
    model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    const std::filesystem::path path = write(model, "reference.onnx");
    NamedArray pixels{"image", {static_cast<std::int64_t>(batch_size), 3, 8, 8}, {}};
    for (const std::uint8_t* sample : samples.batch().images) {
      for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t i = 0; i < 64; ++i) pixels.values.push_back(sample[3 * i + c]);
      }
    }
    const std::vector<ListedArray> arrays{{"image", &pixels}};
    write_npz(directory_.path() / "images.npz", arrays);
    const std::string folder = directory_.path().string();
    const std::string command = CARILLON_TESTS "/acceptance/onnx_run.py " + path.string() + " " + folder +
                                "/images.npz " + folder + "/outputs.npz";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    const std::vector<NamedArray> found = read_npz(folder + "/outputs.npz", 1 << 24);
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? std::vector<float>{} : found[0].values;
  }
};

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

OperatorCase resize(const std::string& mode, const std::string& coordinates, const std::string& rounding,
                    const std::vector<float>& scales, std::int64_t operator_set = 13) {
  std::string name = "Resize_" + mode + "_" + coordinates + "_" + rounding + "_" +
                     std::to_string(static_cast<int>(100.0f * scales[2])) + "_" + std::to_string(operator_set);
  return {name,
          [=](Model& m) {
            m.array("scales", {4}, scales);
            onnx::Node& node = m.node("Resize", {"image", "", "scales"}, "x");
            text(node, "mode", mode);
            text(node, "coordinate_transformation_mode", coordinates);
            if (!rounding.empty()) text(node, "nearest_mode", rounding);
          },
          operator_set};
}

OperatorCase resize_to(const std::string& mode, const std::string& coordinates, const Shape64& sizes) {
  return {"ResizeTo_" + mode + "_" + coordinates + "_" + std::to_string(sizes[0]) + "_" + std::to_string(sizes[1]),
          [=](Model& m) {
            m.integers("sizes", sizes);
            onnx::Node& node = m.node("Resize", {"image", "", "", "sizes"}, "x");
            Model::attribute(node, "axes", {2, 3});
            text(node, "mode", mode);
            text(node, "coordinate_transformation_mode", coordinates);
            text(node, "nearest_mode", "floor");
          },
          18};
}

std::vector<OperatorCase> resizes() {
  std::vector<OperatorCase> cases;
  for (const char* const coordinates : {"asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"}) {
    for (const char* const rounding : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
      cases.push_back(resize("nearest", coordinates, rounding, {1.0f, 1.0f, 2.0f, 1.5f}));
      cases.push_back(resize("nearest", coordinates, rounding, {1.0f, 1.0f, 0.5f, 0.75f}, 18));
    }
    for (const char* const mode : {"linear", "cubic"}) {
      cases.push_back(resize(mode, coordinates, "", {1.0f, 1.0f, 2.0f, 1.75f}));
      cases.push_back(resize(mode, coordinates, "", {1.0f, 1.0f, 0.5f, 3.0f}, 18));
    }
    cases.push_back(resize_to("nearest", coordinates, {16, 12}));
    cases.push_back(resize_to("linear", coordinates, {5, 1}));
    cases.push_back(resize_to("linear", coordinates, {20, 13}));
  }
  return cases;
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

std::vector<OperatorCase> gathers() {
  return {
      {"GatherOfAList",
       [](Model& m) {
         m.integers("i", {5, -1, 0, 5});
         Model::attribute(m.node("Gather", {"image", "i"}, "x"), "axis", 3);
       }},
      {"GatherOfAMatrix",
       [](Model& m) {
         m.integers("flat", {0, 1, 2, 2, 1, 7});
         m.integers("matrix", {2, 3});
         m.node("Reshape", {"flat", "matrix"}, "i");
         Model::attribute(m.node("Gather", {"image", "i"}, "x"), "axis", 2);
       }},
      // Adds a table of biases. Several pairs of positions share an entry.
      {"GatherOfAnArray",
       [](Model& m) {
         m.array("table", {5, 3}, noise(15));
         Shape64 places;
         for (std::int64_t i = 0; i < 64; ++i) places.push_back(i * 7 % 5);
         m.integers("places", places);
         m.integers("images", {8, 8, 3});
         m.integers("zero", {0});
         m.node("Gather", {"table", "places"}, "g");
         m.node("Reshape", {"g", "images"}, "r");
         Model::attribute(m.node("Transpose", {"r"}, "t"), "perm", {2, 0, 1});
         m.node("Unsqueeze", {"t", "zero"}, "u");
         m.node("Sigmoid", {"u"}, "s");
         m.node("Add", {"image", "s"}, "x");
       }},
      {"PartsOfASequence",
       [](Model& m) {
         m.integers("sizes", {1, 2});
         m.integers("last", {-1});
         m.integers("scalar", {});
         m.node("Reshape", {"last", "scalar"}, "place");
         Model::attribute(m.node("SplitToSequence", {"image", "sizes"}, "parts"), "axis", 1);
         m.node("SequenceAt", {"parts", "place"}, "x");
       }},
      {"TileOfAnAxis",
       [](Model& m) {
         m.integers("times", {1, 2, 1, 3});
         m.node("Tile", {"image", "times"}, "x");
       }},
      {"ExpandOfAnAxis",
       [](Model& m) {
         Model::attribute(m.node("ReduceMean", {"image"}, "mean"), "axes", Shape64{1});
         m.integers("shape", {1, 4, 1, 1});
         m.node("Expand", {"mean", "shape"}, "x");
       }},
      {"RepeatedFactor",
       [](Model& m) {
         Model::attribute(m.node("ReduceMean", {"image"}, "mean"), "axes", Shape64{3});
         m.node("Shape", {"image"}, "shape");
         m.node("Expand", {"mean", "shape"}, "e");
         m.node("Div", {"image", "e"}, "x");
       }},
      {"EmbeddingOfEachSample",
       [](Model& m) {
         m.node("Shape", {"image"}, "shape");
         onnx::Node& ones = m.node("ConstantOfShape", {"shape"}, "ones");
         onnx::Attribute& value = *ones.add_attribute();
         value.set_name("value");
         value.set_type(onnx::Attribute::TENSOR);
         value.mutable_t()->set_data_type(onnx::Tensor::FLOAT);
         value.mutable_t()->add_dims(1);
         value.mutable_t()->add_float_data(1.0f);
         m.integers("axis", {2});
         m.node("CumSum", {"ones", "axis"}, "rows");
         m.node("Sin", {"rows"}, "sines");
         m.array("w", {3, 3, 1, 1}, noise(9));
         m.node("Conv", {"sines", "w"}, "e");
         m.node("Add", {"image", "e"}, "x");
       }},
  };
}

/// y is the image, except for a part: y[:, :, rows..., columns...] = the mean of the image, as PyTorch exports it.
OperatorCase assigned(const std::string& name, const Shape64& rows, const Shape64& columns) {
  return {name, [=](Model& m) {
            m.integers("zero", {0});
            m.integers("one", {1});
            m.integers("last", {-1});
            m.integers("channels", {0, 1, 2});
            m.integers("all_rows", rows);
            m.integers("all_columns", columns);
            m.node("Shape", {"image"}, "shape");
            m.node("Gather", {"shape", "zero"}, "batch");
            m.integers("scalar", {});
            m.node("Reshape", {"batch", "scalar"}, "batch_number");
            for (const char* const number : {"zero", "one"})
              m.node("Reshape", {number, "scalar"}, std::string(number) + "_number");
            m.node("Range", {"zero_number", "batch_number", "one_number"}, "samples");
            const std::vector<std::pair<std::string, Shape64>> axes{
                {"samples", {-1, 1, 1, 1}}, {"channels", {-1, 1, 1}}, {"all_rows", {-1, 1}}, {"all_columns", {-1}}};
            m.integers("rest", {3, static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns.size())});
            Model::attribute(m.node("Concat", {"batch", "rest"}, "grid"), "axis", 0);
            std::vector<std::string> parts;
            for (const auto& [axis, shape] : axes) {
              m.integers(axis + "_shape", shape);
              m.node("Reshape", {axis, axis + "_shape"}, axis + "_r");
              m.node("Expand", {axis + "_r", "grid"}, axis + "_e");
              parts.push_back(axis + "_u");
              m.node("Unsqueeze", {axis + "_e", "last"}, parts.back());
            }
            Model::attribute(m.node("Concat", parts, "indices"), "axis", -1);
            Model::attribute(m.node("ReduceMean", {"image"}, "mean"), "axes", {2, 3});
            m.node("Expand", {"mean", "grid"}, "updates");
            m.node("ScatterND", {"image", "indices", "updates"}, "x");
          }};
}

OperatorCase padded(const std::string& name, const std::string& mode, const Shape64& pads) {
  return {name,
          [=](Model& m) {
            m.integers("pads", pads);
            text(m.node("Pad", {"image", "pads"}, "x"), "mode", mode);
          },
          19};
}

std::vector<OperatorCase> products() {
  return {assigned("ScatterOfAPart", {2, 3, 4}, {7, 0}),
          assigned("ScatterOfRows", {5, 1}, {0, 1, 2, 3, 4, 5, 6, 7}),
          assigned("ScatterOfAll", {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}),
          {"AttentionWithTheBatchSecond",  // as torch.nn.MultiheadAttention: [tokens, batch, width]
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
          {"PoolsOfRows",
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
          {"LargestOfChannels",
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
          padded("PadByReflection", "reflect", {0, 0, 3, 1, 0, 0, 0, 7}),
          padded("PadByEdges", "edge", {0, 1, 3, -1, 0, 0, 0, 9}),
          padded("PadByWrapping", "wrap", {0, 0, 3, 8, 0, 2, 0, 1}),
          {"MeanOfSamples",
           [](Model& m) {
             onnx::Node& node = m.node("ReduceMean", {"image"}, "mean");
             Model::attribute(node, "axes", Shape64{1, 2, 3});
             Model::attribute(node, "keepdims", 0);
             m.integers("axes", {1, 2, 3});
             m.node("Unsqueeze", {"mean", "axes"}, "wide");
             m.node("Mul", {"image", "wide"}, "x");
           }},
          {"NumberOfAnArray",
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
          {"ConcatOfValuesWithAndWithoutStoredAxes",
           [](Model& m) {
             m.array("weights", {2, 3, 8, 8}, noise(384));
             m.node("GlobalMaxPool", {"image"}, "largest");
             m.node("Conv", {"image", "weights"}, "conv");
             Model::attribute(m.node("Concat", {"largest", "conv"}, "x"), "axis", 1);
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
          {"SoftmaxOfAnArray",
           [](Model& m) {
             m.array("weights", {3, 1, 8}, noise(24));
             Model::attribute(m.node("Softmax", {"weights"}, "parts"), "axis", -1);
             m.node("Mul", {"image", "parts"}, "x");
           }},
          {"SliceBackwards",
           [](Model& m) {
             m.integers("starts", {-1, 5});
             m.integers("ends", {-100, 0});
             m.integers("axes", {1, 3});
             m.integers("steps", {-1, -2});
             m.node("Slice", {"image", "starts", "ends", "axes", "steps"}, "x");
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
          {"EinsumOfValues",
           [](Model& m) {
             m.node("Sigmoid", {"image"}, "s");
             m.node("Sub", {"image", "s"}, "d");
             text(m.node("Einsum", {"image", "d"}, "e"), "equation", "bchw,bkhw->bkhc");
             m.array("small", {1}, {1e-3f});
             m.node("Mul", {"e", "small"}, "x");
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

std::string name_of(const ::testing::TestParamInfo<OperatorCase>& one) { return one.param.name; }
INSTANTIATE_TEST_SUITE_P(Resizes, OnnxOperators, ::testing::ValuesIn(resizes()), name_of);
INSTANTIATE_TEST_SUITE_P(Norms, OnnxOperators, ::testing::ValuesIn(norms()), name_of);
INSTANTIATE_TEST_SUITE_P(Pads, OnnxOperators, ::testing::ValuesIn(pads()), name_of);
INSTANTIATE_TEST_SUITE_P(Gathers, OnnxOperators, ::testing::ValuesIn(gathers()), name_of);
INSTANTIATE_TEST_SUITE_P(Products, OnnxOperators, ::testing::ValuesIn(products()), name_of);

}  // namespace
}  // namespace carillon::testing
