// Expects that Carillon's networks compute the same logits as torchvision's and timm's networks with the same weights.
// tests/data/samples/make_network_logits.py draws the same weights and the same image.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "carillon/data/decoder.h"
#include "carillon/models/networks.h"
#include "src/checkpoint/array_files.h"
#include "src/device/cpu_device.h"
#include "src/graph/executable.h"
#include "src/train/checkpointing/torch_weights.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/state_dicts.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t side = 64;

/// Returns `count` pseudorandom values from -1 to 1, which depend on `name`.
std::vector<double> draw(const std::string& name, std::size_t count) {
  std::uint32_t seed = 2166136261u;
  for (const char byte : name) seed = (seed ^ static_cast<std::uint8_t>(byte)) * 16777619u;
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) + seed;
    for (int round = 0; round < 2; ++round) x = (x ^ (x >> 16)) * 0x45d9f3bu;
    values.push_back((x ^ (x >> 16)) / 2147483648.0 - 1.0);
  }
  return values;
}

NamedArray array_of(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  double middle = 0.0, range = 0.1;  // the values for biases and running means
  if (name == "cls_token" || name == "pos_embed") {
    range = 0.01;
  } else if (shape.size() > 1) {
    const bool is_first = name == "patch_embed.proj.weight" || name == "stem.0.weight";
    range = (is_first ? 0.01 : 1.0) * std::sqrt(3.0 / static_cast<double>(count / shape[0]));
  } else if (name.ends_with("running_var")) {
    middle = 1.0, range = 0.5;
  } else if (name.ends_with("gamma")) {
    middle = 0.5, range = 0.3;
  } else if (name.ends_with("weight")) {
    middle = 1.0, range = 0.3;
  }
  NamedArray array{name, shape, {}};
  for (const double value : draw(name, static_cast<std::size_t>(count))) {
    array.values.push_back(static_cast<float>(middle + range * value));
  }
  return array;
}

std::vector<float> logits_of(const std::string& name, MakeNetwork make) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.safetensors";
  std::vector<NamedArray> arrays;
  const std::map<std::string, StateDict> dicts = state_dicts();
  for (const auto& [array, shape] : dicts.at(name)) arrays.push_back(array_of(array, shape));
  write_safetensors(path, arrays);

  const Network network = make({.image = {.height = side, .width = side, .channels = 3}, .outputs = 10});
  const BuiltNetwork built = build_network(network, {.batch_size = 1, .purpose = Purpose::evaluation});
  CpuDevice device(1);
  ParameterStore parameters(built.graph.parameters(), device, {});
  BufferStore buffers(built.graph.buffers(), device);
  const CheckpointState state = read_weight_file(path, network, built.graph.parameters(), built.graph.buffers(), {});
  const auto fill = [](const auto& specs, const std::vector<NamedArray>& from, const auto& tensor_of) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto found = std::ranges::find(from, specs[i].name, &NamedArray::name);
      std::ranges::copy(found->values, tensor_of(static_cast<int>(i)).floats().begin());
    }
  };
  fill(built.graph.parameters(), state.variables, [&](int i) { return parameters.value(i); });
  fill(built.graph.buffers(), state.buffers, [&](int i) { return buffers.tensor(i); });

  std::vector<std::uint8_t> planes, image(3 * side * side);
  for (const double value : draw("image", image.size())) {
    planes.push_back(static_cast<std::uint8_t>((value + 1.0) * 128.0));
  }
  planes_to_pixels({side, side, 3}, planes, image);
  const std::vector<const std::uint8_t*> images{image.data()};
  StepInputs step;
  step.batch = {.images = images};
  Executable executable(built.graph, {device, parameters, buffers, step}, false, {built.output});
  executable.forward(device.stream());
  const auto logits = executable.tensor(built.output).floats();
  return {logits.begin(), logits.end()};
}

TEST(NetworkLogits, AreThoseOfTorchvisionAndTimm) {
  const std::map<std::string, MakeNetwork> networks{{"resnet18", resnet18_network},
                                                    {"resnet50", resnet50_network},
                                                    {"convnext_tiny", convnext_tiny_network},
                                                    {"vit_tiny_patch16_224", vit_tiny_patch16_224_network}};
  std::ifstream file(CARILLON_TEST_SAMPLES "/network_logits.txt");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    SCOPED_TRACE(name);
    const std::vector<float> logits = logits_of(name, networks.at(name));
    ASSERT_EQ(logits.size(), 10u);
    for (const float logit : logits) {
      double expected = 0.0;
      words >> expected;
      EXPECT_NEAR(logit, expected, 1e-5);
    }
  }
  EXPECT_EQ(count, networks.size());
}

}  // namespace
}  // namespace carillon::testing
