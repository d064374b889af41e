// Builds ONNX files and imports them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "onnx/onnx.pb.h"
#include "src/device/cpu_device.h"
#include "src/graph/executable.h"
#include "src/onnx/onnx.h"
#include "tests/support/failure.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {

/// Builds an ONNX file. Each function of the class adds a node or an array.
class Model {
 public:
  explicit Model(std::vector<std::int64_t> input = {-1, 3, 8, 8}) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    graph().set_name("test");
    describe(*graph().add_input(), "image", input);
    describe(*graph().add_output(), "y", {-1, 2});
  }

  onnx::Graph& graph() { return *model_.mutable_graph(); }
  onnx::Model& model() { return model_; }

  onnx::Tensor& array(const std::string& name, const std::vector<std::int64_t>& shape,
                      const std::vector<float>& values) {
    onnx::Tensor& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::Tensor::FLOAT);
    for (const std::int64_t extent : shape) tensor.add_dims(extent);
    for (const float value : values) tensor.add_float_data(value);
    return tensor;
  }
  void integers(const std::string& name, const std::vector<std::int64_t>& values) {
    onnx::Tensor& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::Tensor::INT64);
    tensor.add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) tensor.add_int64_data(value);
  }
  /// Adds a number that is not trained. The number is the output of a node Constant.
  void number(const std::string& name, float value) {
    onnx::Attribute& one = *node("Constant", {}, name).add_attribute();
    one.set_name("value_float");
    one.set_type(onnx::Attribute::FLOAT);
    one.set_f(value);
  }
  onnx::Node& node(const std::string& type, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::Node& node = *graph().add_node();
    node.set_op_type(type);
    node.set_name("node_" + output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }
  static void attribute(onnx::Node& node, const std::string& name, std::int64_t value) {
    onnx::Attribute& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::Attribute::INT);
    one.set_i(value);
  }
  static void attribute(onnx::Node& node, const std::string& name, const std::vector<std::int64_t>& values) {
    onnx::Attribute& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::Attribute::INTS);
    for (const std::int64_t value : values) one.add_ints(value);
  }
  /// Adds the mean of each channel, then a layer named "fc" with two outputs.
  void finish(const std::string& x, std::int64_t channels = 3) {
    node("GlobalAveragePool", {x}, "pooled");
    node("Flatten", {"pooled"}, "flat");
    std::vector<float> weights;
    for (std::int64_t i = 0; i < 2 * channels; ++i) weights.push_back(0.25f * static_cast<float>(i));
    array("fc.weight", {2, channels}, weights);
    array("fc.bias", {2}, {1.0f, -1.0f});
    attribute(node("Gemm", {"flat", "fc.weight", "fc.bias"}, "y"), "transB", 1);
  }

 private:
  static void describe(onnx::ValueInfo& value, const std::string& name, const std::vector<std::int64_t>& shape) {
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::Tensor::FLOAT);
    for (const std::int64_t extent : shape) {
      onnx::TensorShape::Dimension& one = *value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
      if (extent > 0) one.set_dim_value(extent);
    }
  }

  onnx::Model model_;
};

/// With this normalization, pixels keep their values from 0 to 255.
inline const PixelNormalization whole_pixels{.mean = {}, .deviation = {1.0f / 255.0f, 1.0f / 255.0f, 1.0f / 255.0f}};

class OnnxImport : public ::testing::Test {
 protected:
  std::filesystem::path write(Model& model, const std::string& name = "net.onnx") {
    const std::filesystem::path path = directory_.path() / name;
    write_text(path, model.model().SerializeAsString());
    return path;
  }
  Network read(Model& model, const OnnxOptions& options = {}, std::int64_t outputs = 2, std::int64_t side = 8) {
    return onnx_network(write(model),
                        options)({.image = {side, side, 3}, .outputs = outputs, .normalization = whole_pixels});
  }
  void expect_refused(Model& model, ExitCode code, const std::string& text) {
    const Failure failure = failure_of([&] { read(model); });
    EXPECT_EQ(failure.code, code);
    EXPECT_THAT(failure.text, ::testing::HasSubstr(text));
    EXPECT_THAT(failure.text, ::testing::HasSubstr("net.onnx"));
  }
  /// Returns the outputs for one image. All pixels of channel c of the image have the value values[c].
  static std::vector<float> outputs(const Network& network, std::array<std::uint8_t, 3> values) {
    std::vector<std::uint8_t> pixels;
    for (std::int64_t i = 0; i < network.image.height * network.image.width; ++i)
      pixels.insert(pixels.end(), values.begin(), values.end());
    const std::uint8_t* const image = pixels.data();
    return outputs_for(network, {&image, 1});
  }
  /// Returns the outputs for images [height, width, channels].
  static std::vector<float> outputs_for(const Network& network, std::span<const std::uint8_t* const> images) {
    const BuiltNetwork built = build_network(
        network, {.batch_size = static_cast<std::int64_t>(images.size()), .purpose = Purpose::evaluation});
    CpuDevice device(1);
    ParameterStore parameters(built.graph.parameters(), device, {});
    BufferStore buffers(built.graph.buffers(), device);
    for (const GivenValues& given : *network.given) {
      for (std::size_t i = 0; i < parameters.specs().size(); ++i) {
        if (parameters.specs()[i].name != given.variable) continue;
        std::ranges::copy(given.values, parameters.value(static_cast<int>(i)).floats().begin());
      }
      for (std::size_t i = 0; i < buffers.specs().size(); ++i) {
        if (buffers.specs()[i].name != given.variable) continue;
        std::ranges::copy(given.values, buffers.tensor(static_cast<int>(i)).floats().begin());
      }
    }
    StepInputs step;
    step.batch.images = images;
    Executable executable(built.graph, {device, parameters, buffers, step}, false, {built.output});
    executable.forward(device.stream());
    const auto found = executable.tensor(built.output).floats();
    return {found.begin(), found.end()};
  }

  TemporaryDirectory directory_;
};

}  // namespace carillon::testing
