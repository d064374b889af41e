// Tests the export to ONNX. The tests export networks, run them with onnxruntime, and compare the outputs.
#include "src/onnx/onnx.h"
#include "src/onnx/operator_table.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <random>

#include "carillon/core/error.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/gather/gather.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layout/layout.h"
#include "kernels/matmul/matmul.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/shared/op_types.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "src/checkpoint/array_files.h"
#include "src/device/cpu_device.h"
#include "src/graph/executable.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"
#include "tests/support/run_program.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t batch_size = 3;

/// A network with random values in all its arrays. Therefore no array has its initial values.
struct Filled {
  Network network;
  std::vector<NamedArray> variables, buffers;
};

Filled fill(Network network) {
  const BuiltNetwork built = build_network(network, {.purpose = Purpose::evaluation});
  std::mt19937 draws(7);
  const auto noise = [&](const Shape& shape, double middle, double range) {
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    std::uniform_real_distribution<double> uniform(middle - range, middle + range);
    for (float& value : values) value = static_cast<float>(uniform(draws));
    return values;
  };
  Filled filled{.network = std::move(network), .variables = {}, .buffers = {}};
  for (const ParameterSpec& spec : built.graph.parameters()) {
    const bool scales = spec.name.ends_with("/gamma");
    const double inputs = static_cast<double>(spec.shape.element_count() / spec.shape.extents().back());
    const double range = scales || spec.shape.rank() == 1 ? 0.3 : std::sqrt(6.0 / inputs);
    filled.variables.push_back({spec.name, spec.shape.extents(), noise(spec.shape, scales ? 1.0 : 0.0, range)});
  }
  for (const BufferSpec& spec : built.graph.buffers()) {
    const bool is_variance = spec.name.ends_with("variance");
    filled.buffers.push_back({spec.name, spec.shape.extents(), noise(spec.shape, is_variance ? 1.0 : 0.0, 0.4)});
  }
  return filled;
}

/// Returns the logits that Carillon's own ops compute.
std::vector<float> logits_of(const Filled& filled, const NoiseBatch& samples) {
  const BuiltNetwork built = build_network(filled.network, {.batch_size = batch_size, .purpose = Purpose::evaluation});
  CpuDevice device(1);
  ParameterStore parameters(built.graph.parameters(), device, {});
  BufferStore buffers(built.graph.buffers(), device);
  for (std::size_t i = 0; i < filled.variables.size(); ++i) {
    std::ranges::copy(filled.variables[i].values, parameters.value(static_cast<int>(i)).floats().begin());
  }
  for (std::size_t i = 0; i < filled.buffers.size(); ++i) {
    std::ranges::copy(filled.buffers[i].values, buffers.tensor(static_cast<int>(i)).floats().begin());
  }
  StepInputs step;
  step.batch = samples.batch();
  Executable executable(built.graph, {device, parameters, buffers, step}, false, {built.output});
  executable.forward(device.stream());
  const auto logits = executable.tensor(built.output).floats();
  return {logits.begin(), logits.end()};
}

/// Runs the ONNX model on the same samples, in channels-first layout. Returns its outputs.
std::vector<NamedArray> run(const std::string& model, const ImageShape& image, const NoiseBatch& samples) {
  const TemporaryDirectory directory;
  const auto path = [&](const std::string& name) { return (directory.path() / name).string(); };
  write_text(path("model.onnx"), model);
  NamedArray pixels{"image", {batch_size, image.channels, image.height, image.width}, {}};
  for (const std::uint8_t* sample : samples.batch().images) {
    for (std::int64_t c = 0; c < image.channels; ++c) {
      for (std::size_t i = 0; i < image.bytes(); i += static_cast<std::size_t>(image.channels)) {
        pixels.values.push_back(sample[i + static_cast<std::size_t>(c)]);
      }
    }
  }
  const std::vector<ListedArray> arrays{{"image", &pixels}};
  write_npz(path("images.npz"), arrays);
  const std::string command = CARILLON_TESTS "/acceptance/onnx_run.py " + path("model.onnx") + " " +
                              path("images.npz") + " " + path("outputs.npz");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return read_npz(path("outputs.npz"), 1 << 20);
}

class OnnxModel : public ::testing::TestWithParam<std::size_t> {};

/// Returns a network for images with a block like ConvNeXt's blocks.
Network row_normalized_network() {
  return make_network("row_normalized", {.image = {28, 28, 1}}, [](Graph& graph) {
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = conv2d(graph, "stem", x, {.filters = 12, .kernel = 4, .stride = 4, .padding = Padding::valid});
    x = gelu(graph, "gelu", layer_norm(graph, "norm", x));
    x = global_avg_pool(graph, "average", scale_channels(graph, "scale", x));
    x = layer_norm(graph, "last/norm", x, {.epsilon = 0.1f});
    return dense(graph, "logits", scale_channels(graph, "last/scale", x), {.units = 10});
  });
}

/// Applies several functions to images of shape [batch, 7, 7, 12].
Value functions_of_images(Graph& graph, Value x) {
  x = hard_swish(graph, "hard_swish", x);
  x = clip(graph, "clip", x, {.least = -0.25f, .most = 3.0f});
  x = leaky_relu(graph, "leaky_relu", x, {.slope = 0.125f});
  x = multiply(graph, "gated", x, sigmoid(graph, "sigmoid", x));
  x = add(graph, "gates", x, hard_sigmoid(graph, "hard_sigmoid", x, {.alpha = 0.5f, .beta = 0.25f}));
  x = add(graph, "curves", tanh(graph, "tanh", x), erf(graph, "erf", x));
  x = exp(graph, "exp", x);
  return reciprocal(graph, "reciprocal", shift(graph, "shift", sqrt(graph, "sqrt", x), 0.5f));
}

/// Concatenates x and 0.5 * x along `axis`.
Value joined(Graph& graph, const std::string& name, Value x, std::int64_t axis) {
  const std::vector<Value> parts{x, scale(graph, name + "/scale", x, 0.5f)};
  return concat(graph, name, parts, {.axis = axis});
}

/// Changes the shape of images several times: from [batch, 14, 7, 24] to [batch, 6, 7, 16].
Value shapes_of_images(Graph& graph, Value x) {
  x = transpose(graph, "turn", x, {.axes = {0, 2, 3, 1}});  // [batch, 7, 24, 14]
  x = pad(graph, "pad", x, {.before = {1, -2, 0}, .after = {0, 0, 3}, .value = 0.25f});
  x = slice(graph, "slice", x, {.axis = 1, .first = 7, .count = 4, .step = -2});  // [batch, 4, 22, 17]
  x = mean(graph, "row_mean", x, {.axes = {3}, .keeps_axes = true});              // [batch, 4, 22, 1]
  x = gather(graph, "moved", x, {.axis = 2, .indices = {3, 3, 1, 0}});
  x = gather(graph, "mixed_rows", x,
             {.axis = 2,
              .indices = {0, 1, 2, -1, 3, 2, 1, 1},
              .weights = {0.25f, 0.75f, 1.0f, 1.0f, 0.5f, 0.5f, 2.0f, -1.0f},
              .terms = 2});
  x = gather(graph, "longer", x,
             {.axis = 2, .indices = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 1, 2}});
  x = reshape(graph, "flat", x, {.extents = {-1}});
  x = slice(graph, "reversed", x, {.first = 87, .count = 88, .step = -1});
  x = reshape(graph, "planes", x, {.extents = {2, 11, 4}});
  x = pad(graph, "wider", x, {.before = {2, -2, 6}, .after = {2, -2, 6}, .value = -1.0f});
  return softmax(graph, "pixel_softmax", x);
}

/// Computes attention by single ops, from [batch, 6, 7, 16] to [batch, 64].
Value heads_of_tokens(Graph& graph, Value x) {
  const Value tokens = batch_norm(graph, "token_norm", reshape(graph, "tokens", x, {.extents = {42, 16}}));
  const Value heads =
      transpose(graph, "heads", reshape(graph, "split_heads", tokens, {.extents = {42, 2, 8}}), {.axes = {0, 2, 1, 3}});
  const Value weights = softmax(graph, "weights", matmul(graph, "scores", heads, heads, {.transpose_b = true}));
  const Value mixed = matmul(graph, "mixed", weights, heads);                             // [batch, 2, 42, 8]
  const Value squares = matmul(graph, "squares", tokens, tokens, {.transpose_a = true});  // [batch, 16, 16]
  const Value parts[] = {mean(graph, "head_mean", mixed, {.axes = {2}}),
                         reshape(graph, "rest", mean(graph, "mean", squares, {.axes = {1}}), {.extents = {2, 8}})};
  const Value joined = concat(graph, "parts", parts, {.axis = 1});  // [batch, 4, 8]
  const Value turned = transpose(graph, "turned", joined, {.axes = {0, 2, 1}});
  return reshape(graph, "features", pad(graph, "padded", turned, {.before = {0, 2}, .after = {0, 2}}),
                 {.extents = {64}});
}

/// Returns a network of ops that occur in networks of other frameworks.
Network general_ops_network() {
  return make_network("general_ops", {.image = {28, 28, 1}}, [](Graph& graph) {
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = conv2d(graph, "stem", x, {.filters = 12, .kernel = 4, .stride = 4, .padding = Padding::valid});
    x = functions_of_images(graph, x);
    x = joined(graph, "channels", x, -1);
    x = joined(graph, "rows", x, 1);
    x = shapes_of_images(graph, x);
    x = heads_of_tokens(graph, x);
    return dense(graph, "logits", x, {.units = 10});
  });
}

/// Returns a network of convolutions and poolings with groups, dilation, windows of different height and width, or
/// padding on some sides only.
Network windows_network() {
  return make_network("windows", {.image = {28, 28, 1}}, [](Graph& graph) {
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = conv2d(graph, "stem", x, {.filters = 8, .kernel = 5, .stride = 2, .stride_width = 1, .pads = {2, 0, 1, 3}});
    x = max_pool(graph, "max", x,
                 {.window = 1, .stride = 1, .window_width = 3, .stride_width = 2, .pads = {0, 0, 0, 1}});
    x = conv2d(graph, "groups", x, {.filters = 12, .kernel = 3, .groups = 4});
    x = conv2d(graph, "dilated", x, {.filters = 12, .kernel = 3, .groups = 2, .dilation = 2, .dilation_width = 1});
    x = relu(graph, "relu", x);
    x = depthwise_conv2d(graph, "depthwise", x,
                         {.kernel = 3, .kernel_width = 2, .stride_width = 2, .pads = {1, 0, 1, 1}});
    x = avg_pool(graph, "average", x, {.window = 3, .stride = 2, .counts_padding = true, .pads = {1, 0, 0, 1}});
    x = avg_pool(graph, "average2", x, {.window = 2, .stride = 2, .window_width = 1, .pads = {1, 0, 0, 0}});
    return dense(graph, "logits", x, {.units = 10});
  });
}

std::vector<Network> exported_networks() {
  std::vector<Network> networks = all_networks();
  networks.push_back(row_normalized_network());
  networks.push_back(general_ops_network());
  networks.push_back(windows_network());
  networks.push_back(airbench96_network(cifar10_images()));
  networks.push_back(resnet50_network(cifar10_images()));
  networks.push_back(convnext_tiny_network(cifar10_images()));
  networks.push_back(vit_tiny_patch16_224_network(cifar10_images()));
  return networks;
}

TEST_P(OnnxModel, ComputesTheNetworksLogits) {
  const Filled filled = fill(exported_networks().at(GetParam()));
  SCOPED_TRACE(filled.network.name);
  const ImageShape& image = filled.network.image;
  const NoiseBatch samples(5, batch_size, static_cast<std::size_t>(image.bytes()));
  const std::vector<float> logits = logits_of(filled, samples);
  const std::string model = onnx_model(filled.network, {}, filled.variables, filled.buffers, {});
  const std::vector<NamedArray> outputs = run(model, image, samples);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].name, "logits");
  EXPECT_EQ(outputs[1].name, "probabilities");
  ASSERT_EQ(outputs[0].values.size(), logits.size());
  float largest = 0.0f;
  for (const float logit : logits) largest = std::max(largest, std::abs(logit));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(outputs[0].values[i], logits[i], 2e-5 * largest) << i;
  }
  const std::size_t classes = logits.size() / batch_size;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double sum = 0.0;
    for (std::size_t k = i / classes * classes; k < (i / classes + 1) * classes; ++k) {
      sum += std::exp(static_cast<double>(logits[k]) - logits[i]);
    }
    EXPECT_NEAR(outputs[1].values[i], 1.0 / sum, 1e-4 * std::max(1.0f, largest)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, OnnxModel, ::testing::Range(std::size_t{0}, exported_networks().size()));

class OnnxTargets : public ::testing::Test {
 protected:
  Filled filled_ = fill(lenet_network(mnist_images()));
  NoiseBatch samples_{5, batch_size, static_cast<std::size_t>(filled_.network.image.bytes())};
  std::vector<float> outputs_ = logits_of(filled_, samples_);

  std::vector<NamedArray> run_as(const OnnxTarget& target) {
    return run(onnx_model(filled_.network, target, filled_.variables, filled_.buffers, {}), filled_.network.image,
               samples_);
  }
};

TEST_F(OnnxTargets, LabelsHaveAProbabilityEach) {
  const std::vector<NamedArray> found = run_as({.kind = TargetKind::labels});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "logits");
  EXPECT_EQ(found[1].name, "probabilities");
  float largest = 0.0f;
  for (const float output : outputs_) largest = std::max(largest, std::abs(output));
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const float logit = found[0].values[i];
    EXPECT_NEAR(logit, outputs_[i], 2e-5 * largest) << i;
    EXPECT_NEAR(found[1].values[i], 1.0 / (1.0 + std::exp(-static_cast<double>(logit))), 1e-6) << i;
  }
}

TEST_F(OnnxTargets, NumbersHaveTheirUnit) {
  std::vector<NumberScale> scales;
  for (int i = 0; i < 10; ++i) scales.push_back({.mean = 3.0 * i, .deviation = 0.5 + i});
  const std::vector<NamedArray> found = run_as({.kind = TargetKind::numbers, .scales = scales});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "numbers");
  float largest = 0.0f;
  for (const float output : outputs_) largest = std::max(largest, std::abs(output));
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const NumberScale& scale = scales[i % 10];
    EXPECT_NEAR(found[0].values[i], scale.number(outputs_[i]), 2e-5 * largest * scale.deviation) << i;
  }
}

TEST(OnnxModels, OfEqualArgumentsAreEqual) {
  const Filled filled = fill(lenet_network(mnist_images()));
  const auto model = [&] {
    return onnx_model(filled.network, {}, filled.variables, filled.buffers, {{"b", "2"}, {"a", "1"}});
  };
  EXPECT_EQ(model(), model());
  EXPECT_THAT(model(), HasSubstr("Carillon"));
}

TEST(OnnxModels, NeedEveryArrayOfTheNetwork) {
  const Filled filled = fill(normalized_network());
  const auto error_without = [&](auto change) {
    Filled other = filled;
    change(other);
    return error_of([&] { onnx_model(other.network, {}, other.variables, other.buffers, {}); });
  };
  const Error variable = error_without([](Filled& other) { other.variables.pop_back(); });
  EXPECT_THAT(variable.what(), HasSubstr("the array 'logits/weights' of the network is missing"));
  EXPECT_EQ(variable.code(), ExitCode::data);
  EXPECT_THAT(error_without([](Filled& other) { other.buffers.clear(); }).what(), HasSubstr("moving_mean"));
  EXPECT_THAT(error_without([](Filled& other) { other.variables[0].shape.push_back(1); }).what(),
              HasSubstr("has the shape"));
  EXPECT_THAT(error_without([](Filled& other) { other.variables[0].values[0] = NAN; }).what(), HasSubstr("not finite"));
}

class ExportCommand : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  Outcome tool(const std::string& arguments) const {
    return run_program("checkpoint_tool " + arguments, "cd " + directory_.path().string() + " && ");
  }
  void expect_failure(const std::string& arguments, ExitCode code, const std::string& text) const {
    expect_one_line(tool(arguments), code, text);
    EXPECT_FALSE(std::filesystem::exists(path("out.onnx")));
  }

  const TemporaryDirectory directory_;
  Filled averages_ = fill(mnist_network(mnist_images({.pixel_scale = 0.5f})));
  CheckpointState state_{.model = "mnist",
                         .global_step = 7,
                         .options_json = R"({"record form": "grey", "target": "classification", "class count": 10})",
                         .network = description_text(averages_.network),
                         .variables = averages_.variables,
                         .moving_averages = averages_.variables};
};

TEST_F(ExportCommand, WritesTheMovingAveragesUnlessToldOtherwise) {
  for (NamedArray& array : state_.variables) {
    for (float& value : array.values) value += 1.0f;
  }
  write_checkpoint(path("model.ckpt-7.h5"), state_);
  const Outcome outcome = tool("export --onnx out.onnx .");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("wrote out.onnx: mnist of ./model.ckpt-7.h5"));
  const std::string model = read_text(path("out.onnx"));
  for (const std::string part : {"mnist", "global_step", "moving averages", R"("channels":1)", R"("layout":"NCHW")"}) {
    EXPECT_THAT(model, HasSubstr(part));
  }
  const NoiseBatch samples(5, batch_size, 784);
  const std::vector<float> expected = logits_of(averages_, samples);
  const std::vector<NamedArray> outputs = run(model, averages_.network.image, samples);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(outputs.at(0).values[i], expected[i], 1e-3) << i;
  EXPECT_EQ(tool("export --raw-weights model.ckpt-7.h5 --onnx=raw.onnx").code, 0);
  EXPECT_NE(read_text(path("raw.onnx")), model);
  EXPECT_THAT(read_text(path("raw.onnx")), HasSubstr("variables"));
}

TEST_F(ExportCommand, RefusesWhatIsNoNetworkOfOursAndWritesNothing) {
  CheckpointState state = state_;
  state.network.replace(state.network.find("relu\",\"inputs"), 4, "swish");
  write_checkpoint(path("other.h5"), state);
  expect_failure("export --onnx out.onnx other.h5", ExitCode::data,
                 "checkpoint_tool: other.h5: the network has an op of type swish, which this program does not have");
  state = state_;
  state.moving_averages.clear();
  write_checkpoint(path("empty.h5"), state);
  expect_failure("export --onnx out.onnx empty.h5", ExitCode::data,
                 "empty.h5: the array 'layer1/weights' of the network is missing");
  state = state_;
  state.options_json = R"({"target": "detection"})";
  write_checkpoint(path("scale.h5"), state);
  expect_failure("export --onnx out.onnx scale.h5", ExitCode::data,
                 "scale.h5: its options do not describe its records");
  expect_failure("export scale.h5", ExitCode::usage, "export takes one of --onnx and --safetensors");
  expect_failure("export --safetensors a.pt scale.h5", ExitCode::usage, "--safetensors a.pt");
  expect_failure("export --onnx out.onnx missing.h5", ExitCode::no_input, "missing.h5");
  expect_failure("verify --onnx out.onnx scale.h5", ExitCode::usage, "--onnx does not apply to verify");
}

TEST(OnnxModels, KnowAllOpTypes) {
  for (const OpType* type : op_types()) {
    const bool only_trains = type->name == "dropout" || type->name == "drop_path";
    EXPECT_EQ(onnx_operators(*type) == nullptr, only_trains) << type->name;
  }
}

}  // namespace
}  // namespace carillon::testing
