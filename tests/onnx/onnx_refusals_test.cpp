// Damaged and hostile ONNX files, and files that cannot be trained.
#include <gmock/gmock.h>

#include <limits>

#include "tests/onnx/import_fixture.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(OnnxImport, RefusesFilesThatAFewBytesMakeHuge) {
  const auto refused = [&](const std::string& text, const auto& add) {
    Model model;
    add(model);
    model.finish("big");
    expect_refused(model, ExitCode::data, text);
  };
  refused("too many axes", [](Model& model) {
    model.array("small", {2, 2}, {1, 2, 3, 4});
    model.integers("axes", std::vector<std::int64_t>(10'000, 10'001));
    model.node("Unsqueeze", {"small", "axes"}, "wide");
    model.node("Add", {"image", "wide"}, "big");
  });
  refused("constants of these shapes", [](Model& model) {
    model.array("a", {3, 0}, {});
    model.array("b", {0, 8}, {});
    model.node("MatMul", {"a", "b"}, "empty");
    model.node("Add", {"image", "empty"}, "big");
  });
  refused("invalid number of repeats", [](Model& model) {
    model.integers("repeats", {1, 1, std::int64_t{1} << 31, 1});
    model.node("Tile", {"image", "repeats"}, "big");
  });
  refused("makes an axis that is too long", [](Model& model) {
    model.integers("sizes", {std::int64_t{1} << 31, 3, 8, 8});
    model.node("Resize", {"image", "", "", "sizes"}, "big");
  });
  refused("too many axes", [](Model& model) {
    std::vector<std::int64_t> shape(1000, 1);
    shape[0] = 0;
    shape[1] = -1;
    model.integers("shape", shape);
    model.node("Reshape", {"image", "shape"}, "big");
  });
}

TEST_F(OnnxImport, ManyNodesWithOneNameNeedLinearTime) {
  Model model;
  std::string x = "image";
  for (int i = 0; i < 20'000; ++i) {
    const std::string y = "r" + std::to_string(i);
    model.node("Relu", {x}, y).set_name("same");
    x = y;
  }
  model.finish(x);
  const Failure failure = failure_of([&] { read(model); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("net.onnx"));
}

TEST_F(OnnxImport, RefusesADropPathThatKeepsMoreThanAll) {
  Model model;
  onnx::Node& random = model.node("RandomUniform", {}, "random");
  Model::attribute(random, "shape", {1, 1, 1, 1});
  model.number("kept", 3.0f);
  model.node("Add", {"random", "kept"}, "sum");
  model.node("Floor", {"sum"}, "mask");
  model.node("Mul", {"image", "mask"}, "dropped");
  model.finish("dropped");
  expect_refused(model, ExitCode::data, "uses random numbers in a way that is not supported");
}

TEST_F(OnnxImport, NamesAllOperatorsThatItCannotTrain) {
  Model model;
  model.node("GridSample", {"image"}, "a");
  model.node("LSTM", {"a"}, "b");
  model.node("LSTM", {"b"}, "c");
  model.finish("c");
  expect_refused(model, ExitCode::data,
                 "cannot be trained: no op computes the operators GridSample (node 'node_a'), LSTM (2 nodes, first "
                 "node 'node_b')");
}

TEST_F(OnnxImport, RefusesWhatIsNoModel) {
  write_text(directory_.path() / "net.onnx", "not a model");
  const Failure failure = failure_of([&] { onnx_network(directory_.path() / "net.onnx"); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("net.onnx: is not an ONNX model"));
  EXPECT_EQ(failure_of([&] { onnx_network(directory_.path() / "none.onnx"); }).code, ExitCode::no_input);
}

TEST_F(OnnxImport, RefusesACycle) {
  Model model;
  model.node("Add", {"image", "b"}, "a");
  model.node("Relu", {"a"}, "b");
  model.finish("b");
  expect_refused(model, ExitCode::data, "reads 'b', which no node before it computes");
}

TEST_F(OnnxImport, RefusesArraysOfWrongSizes) {
  for (const auto& [shape, text] :
       {std::pair<std::vector<std::int64_t>, std::string>{{3, 2}, "has 5 values, expected 6"},
        {{-1, 5}, "has an invalid shape"},
        {{std::int64_t{1} << 40, std::int64_t{1} << 40}, "has an invalid shape"}}) {
    Model model;
    model.array("w", shape, {1, 2, 3, 4, 5});
    model.finish("image");
    expect_refused(model, ExitCode::data, "the array 'w' " + text);
  }
}

TEST_F(OnnxImport, RefusesNodesThatReadOutsideTheirInputs) {
  const auto refuses = [&](const std::string& text, const auto& add) {
    Model model;
    model.array("m", {2, 2}, {1, 2, 3, 4});
    model.array("none", {0}, {});
    model.integers("one", {1});
    model.integers("ten", {10});
    model.integers("zero", {0});
    model.integers("huge", {std::numeric_limits<std::int64_t>::max()});
    model.integers("empty", {});
    add(model);
    model.finish("t");
    expect_refused(model, ExitCode::data, text);
  };
  refuses("names an axis twice", [](Model& m) { Model::attribute(m.node("Transpose", {"m"}, "t"), "perm", {0, 0}); });
  refuses("reads an element that its input lacks", [](Model& m) { m.node("Gather", {"none", "one"}, "t"); });
  refuses("needs one number", [](Model& m) { m.node("Range", {"zero", "empty", "one"}, "t"); });
  refuses("needs a number of the type", [](Model& m) { m.node("Clip", {"m", "none"}, "t"); });
  refuses("names an axis twice", [](Model& m) {
    Model::attribute(m.node("Transpose", {"image"}, "t"), "perm", {0, 1, 2, 2});
  });
  refuses("below 1", [](Model& m) {
    onnx::Node& pool = m.node("MaxPool", {"image"}, "t");
    Model::attribute(pool, "kernel_shape", {2, 2});
    Model::attribute(pool, "strides", {0, 0});
    Model::attribute(pool, "ceil_mode", 1);
  });
  refuses("has no outputs", [](Model& m) {
    onnx::Node& split = m.node("Split", {"image"}, "t");
    Model::attribute(split, "axis", 1);
    Model::attribute(split, "num_outputs", -1);
  });
  refuses("has a constant as input 1, which is not read", [](Model& m) { m.node("MatMul", {"image", "one"}, "t"); });
  refuses("reads an element that its input lacks", [](Model& m) {
    Model::attribute(m.node("Gather", {"image", "huge"}, "t"), "axis", 1);
  });
  refuses("is not finite", [](Model& m) { m.array("nan", {1}, {std::numeric_limits<float>::quiet_NaN()}); });
}

TEST_F(OnnxImport, ARefusedFileForSeveralImagesNamesTheExport) {
  Model model({2, 3, 8, 8});
  model.integers("shape", {7, -1});
  model.node("Reshape", {"image", "shape"}, "rows");
  model.finish("rows");
  expect_refused(model, ExitCode::data, "for batches of 2 images: export it for one image or for any number");
}

/// In a file for one image, the axis that the batch joins may be removed.
TEST_F(OnnxImport, RefusesToRemoveTheAxisOfTheBatch) {
  Model model({1, 3, 8, 8});
  model.integers("all", {-1});
  model.integers("zero", {0});
  model.integers("scalar", {});
  model.node("Reshape", {"zero", "scalar"}, "place");
  model.node("Reshape", {"image", "all"}, "values");
  Model::attribute(model.node("Gather", {"values", "place"}, "number"), "axis", 0);
  model.finish("number");
  expect_refused(model, ExitCode::data, "does not keep the batch");
}

TEST_F(OnnxImport, RefusesTwoNodesThatComputeOneValue) {
  Model model;
  model.node("Relu", {"image"}, "r");
  model.node("Sigmoid", {"image"}, "r");
  model.finish("r");
  expect_refused(model, ExitCode::data, "two nodes compute 'r'");
}

TEST_F(OnnxImport, RefusesWhatWouldMixSamples) {
  const auto refuses = [&](const auto& add, const std::string& text = "does not keep the batch") {
    Model model;
    add(model);
    model.finish("t");
    expect_refused(model, ExitCode::data, text);
  };
  refuses([](Model& m) {
    m.integers("none", {});
    m.node("ReduceSum", {"image", "none"}, "t");
  });
  refuses(
      [](Model& m) {
        Model::attribute(m.node("Transpose", {"image"}, "turned"), "perm", {1, 2, 0, 3});
        m.node("GlobalMaxPool", {"turned"}, "t");
      },
      "does not slide over images");
  refuses([](Model& m) {
    m.integers("axis", {0});
    m.node("Squeeze", {"image", "axis"}, "t");
  });
  refuses([](Model& m) {
    m.integers("zero", {0});
    m.integers("ones", {1, 1, 1});
    m.node("Shape", {"image"}, "shape");
    m.node("Gather", {"shape", "zero"}, "samples");
    Model::attribute(m.node("Concat", {"samples", "ones"}, "times"), "axis", 0);
    m.node("Tile", {"image", "times"}, "t");
  });
  refuses([](Model& m) {  // [samples * 3, 8, 8] + [samples, 8, 8]
    m.integers("windows", {-1, 8, 8});
    m.node("Reshape", {"image", "windows"}, "joined");
    onnx::Node& mean = m.node("ReduceMean", {"image"}, "mean");
    Model::attribute(mean, "axes", std::vector<std::int64_t>{1});
    m.node("Add", {"joined", "mean"}, "t");
  });
}

TEST_F(OnnxImport, RefusesExtentsWithoutElements) {
  Model filters;
  filters.array("weights", {0, 3, 3, 3}, {});
  filters.node("Conv", {"image", "weights"}, "t");
  filters.finish("t");
  expect_refused(filters, ExitCode::data, "has filters without elements");
  Model split;
  onnx::Node& node = split.node("Split", {"image"}, "t");
  Model::attribute(node, "axis", 1);
  Model::attribute(node, "num_outputs", std::numeric_limits<std::int64_t>::max());
  split.finish("t");
  expect_refused(split, ExitCode::data, "another number of outputs than parts");
}

TEST_F(OnnxImport, RefusesAnOutputThatIsTheInput) {
  Model model;
  model.node("Relu", {"image"}, "r");
  model.graph().mutable_output(0)->set_name("image");
  expect_refused(model, ExitCode::data, "no node computes the output 'image'");
}

TEST_F(OnnxImport, ReadsValuesOnlyFromItsFolder) {
  const std::string values(6 * sizeof(float), '\0');
  write_text(directory_.path() / "weights.bin", values);
  const auto model_with = [&](const std::string& location, const std::string& offset) {
    Model model;
    model.finish("image");
    onnx::Tensor& tensor = *model.graph().mutable_initializer(0);
    tensor.clear_float_data();
    tensor.set_data_location(onnx::Tensor::EXTERNAL);
    for (const auto& [key, value] : {std::pair{"location", location}, {"offset", offset}}) {
      onnx::StringEntry& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return model;
  };
  Model good = model_with("weights.bin", "0");
  EXPECT_NEAR(outputs(read(good), {9, 9, 9})[0], 1.0, 1e-6);
  std::filesystem::create_symlink("/etc/passwd", directory_.path() / "link.bin");
  for (const auto& [location, offset, text] :
       {std::tuple<std::string, std::string, std::string>{"../weights.bin", "0", "outside its folder"},
        {"/etc/passwd", "0", "outside its folder"},
        {"link.bin", "0", "outside its folder"},
        {"weights.bin", "8", "ends before them"},
        {"weights.bin", "-8", "no valid place"}}) {
    Model model = model_with(location, offset);
    expect_refused(model, ExitCode::data, text);
  }
  Model missing = model_with("none.bin", "0");
  EXPECT_EQ(failure_of([&] { read(missing); }).code, ExitCode::no_input);
}

TEST_F(OnnxImport, AFileForOtherImagesNamesTheirSize) {
  const std::vector<std::int64_t> channels_first{-1, 3, 8, 8}, channels_last{-1, 8, 8, 3};
  for (const std::vector<std::int64_t>& input : {channels_first, channels_last}) {
    Model model(input);
    model.integers("shape", {-1, 192});
    model.node("Reshape", {"image", "shape"}, "flat");
    model.array("fc.weight", {2, 192}, std::vector<float>(384));
    Model::attribute(model.node("Gemm", {"flat", "fc.weight"}, "y"), "transB", 1);
    EXPECT_EQ(read(model).image.height, 8);
    const Failure failure = failure_of([&] { read(model, {}, 2, 16); });
    EXPECT_EQ(failure.code, ExitCode::usage);
    EXPECT_THAT(failure.text, HasSubstr("the file is for images of 8x8: --image-size 8"));
  }
}

}  // namespace
}  // namespace carillon::testing
