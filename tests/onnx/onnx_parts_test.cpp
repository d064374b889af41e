// Imports operators that resize, gather, cut and join values, and compares them with onnxruntime.
#include <gmock/gmock.h>

#include "tests/onnx/operator_cases.h"

namespace carillon::testing {
namespace {

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

std::vector<OperatorCase> parts() {
  return {assigned("ScatterOfAPart", {2, 3, 4}, {7, 0}),
          assigned("ScatterOfRows", {5, 1}, {0, 1, 2, 3, 4, 5, 6, 7}),
          assigned("ScatterOfAll", {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}),
          padded("PadByReflection", "reflect", {0, 0, 3, 1, 0, 0, 0, 7}),
          padded("PadByEdges", "edge", {0, 1, 3, -1, 0, 0, 0, 9}),
          padded("PadByWrapping", "wrap", {0, 0, 3, 8, 0, 2, 0, 1}),
          {"ConcatOfValuesWithAndWithoutStoredAxes",
           [](Model& m) {
             m.array("weights", {2, 3, 8, 8}, noise(384));
             m.node("GlobalMaxPool", {"image"}, "largest");
             m.node("Conv", {"image", "weights"}, "conv");
             Model::attribute(m.node("Concat", {"largest", "conv"}, "x"), "axis", 1);
           }},
          {"SliceBackwards", [](Model& m) {
             m.integers("starts", {-1, 5});
             m.integers("ends", {-100, 0});
             m.integers("axes", {1, 3});
             m.integers("steps", {-1, -2});
             m.node("Slice", {"image", "starts", "ends", "axes", "steps"}, "x");
           }}};
}

INSTANTIATE_TEST_SUITE_P(Resizes, OnnxOperators, ::testing::ValuesIn(resizes()), name_of);
INSTANTIATE_TEST_SUITE_P(Gathers, OnnxOperators, ::testing::ValuesIn(gathers()), name_of);
INSTANTIATE_TEST_SUITE_P(Parts, OnnxOperators, ::testing::ValuesIn(parts()), name_of);

}  // namespace
}  // namespace carillon::testing
