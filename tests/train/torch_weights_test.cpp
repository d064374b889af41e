#include "src/train/checkpointing/torch_weights.h"

#include <gmock/gmock.h>

#include "carillon/models/networks.h"
#include "src/checkpoint/array_files.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/state_dicts.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Has some arrays of a ResNet.
class TorchWeights : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "a.safetensors"; }
  std::vector<NamedArray> arrays_ = {{"conv1.weight", {1, 3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
                                     {"bn1.running_mean", {1}, {0.5f}},
                                     {"fc.weight", {2, 3}, {1, 2, 3, 4, 5, 6}},
                                     {"bn1.num_batches_tracked", {}, {7}}};
  const std::vector<ParameterSpec> variables_{{"stem/weights", Shape{2, 2, 3, 1}, {}},
                                              {"logits/weights", Shape{3, 2}, {}}};
  const std::vector<BufferSpec> buffers_{{"stem/norm/moving_mean", Shape{1}}};

  CheckpointState read(const std::vector<std::string>& excluded = {}) const {
    write_safetensors(path(), arrays_);
    return read_weight_file(path(), network_, variables_, buffers_, excluded);
  }
  void expect_refused(const std::string& text) const {
    const Error error = error_of([&] { read(); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(path().string() + ": "));
    EXPECT_THAT(error.what(), HasSubstr(text));
  }

  const NetworkSettings settings_{.image = {.height = 32, .width = 32, .channels = 3}, .outputs = 2};
  const Network network_ = resnet18_network(settings_);
  TemporaryDirectory directory_;
};

TEST_F(TorchWeights, GetOurNamesAndLayout) {
  const CheckpointState state = read();
  EXPECT_EQ(state.model, "resnet18");
  ASSERT_EQ(state.variables.size(), 2u);
  EXPECT_EQ(state.variables[0].name, "stem/weights");
  EXPECT_THAT(state.variables[0].shape, ElementsAre(2, 2, 3, 1));
  EXPECT_THAT(state.variables[0].values, ElementsAre(1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12));
  EXPECT_THAT(state.variables[1].values, ElementsAre(1, 4, 2, 5, 3, 6));
  ASSERT_EQ(state.buffers.size(), 1u);
  EXPECT_EQ(state.buffers[0].values, std::vector<float>{0.5f});
}

TEST_F(TorchWeights, AreWrittenAsTheyWereRead) {
  const CheckpointState state = read();
  const std::vector<NamedArray> written = torch_arrays(network_, state.variables, state.buffers);
  ASSERT_EQ(written.size(), 3u);
  for (const NamedArray& array : written) {
    const auto original = std::ranges::find(arrays_, array.name, &NamedArray::name);
    ASSERT_NE(original, arrays_.end()) << array.name;
    EXPECT_EQ(array.shape, original->shape);
    EXPECT_EQ(array.values, original->values);
  }
}

TEST_F(TorchWeights, ThatAreExcludedMayBeAbsentOrOfAnotherShape) {
  arrays_[2] = {"fc.weight", {1, 3}, {1, 2, 3}};
  EXPECT_EQ(read({"logits/*"}).variables.size(), 1u);
  arrays_.erase(arrays_.begin() + 2);
  EXPECT_EQ(read({"logits/*"}).variables.size(), 1u);
}

TEST_F(TorchWeights, ThatAreMissingUnknownOrOfAnotherShapeAreNamed) {
  const std::vector<NamedArray> all = arrays_;
  arrays_[2].name = "fc.weights";
  expect_refused("resnet18 has no array 'fc.weights'; the most similar name is 'fc.weight'");
  arrays_ = all;
  arrays_.erase(arrays_.begin());
  expect_refused("has no 'conv1.weight' (stem/weights) of resnet18");
  arrays_ = all;
  arrays_[2].shape = {3, 2};
  expect_refused("'fc.weight' is 3 x 2, and that of resnet18 is 2 x 3 (for other classes: --init-exclude 'logits/*')");
}

TEST_F(TorchWeights, MayHaveACommonPrefix) {
  const CheckpointState expected = read();
  for (const std::string prefix : {"module.", "model.", "_orig_mod.", "module._orig_mod.", "net.backbone."}) {
    std::vector<NamedArray> prefixed = arrays_;
    for (NamedArray& array : prefixed) array.name.insert(0, prefix);
    write_safetensors(path(), prefixed);
    std::vector<std::string> notes;
    const CheckpointState state = read_weight_file(path(), network_, variables_, buffers_, {},
                                                   [&](const std::string& line) { notes.push_back(line); });
    EXPECT_TRUE(state.variables == expected.variables && state.buffers == expected.buffers) << prefix;
    EXPECT_THAT(notes, ElementsAre(fmt::format("{}: ignored '{}' before all names", path().string(), prefix)));
  }
}

TEST_F(TorchWeights, OfOtherPackagesAreNamed) {
  const std::pair<const char*, const char*> others[] = {
      {"resnet.embedder.embedder.convolution.weight", "transformers' ResNets"},
      {"vit.embeddings.patch_embeddings.projection.weight", "transformers' vision transformers"},
      {"convnext.embeddings.patch_embeddings.weight", "transformers' ConvNeXts"},
      {"features.0.0.weight", "torchvision's ConvNeXts"},
      {"module.encoder.layers.encoder_layer_0.ln_1.weight", "torchvision's vision transformers"}};
  for (const auto& [name, package] : others) {
    arrays_ = {{name, {1}, {1}}, {"classifier.weight", {1}, {1}}};
    expect_refused(std::string("has the names of ") + package);
    const Error error = error_of([&] { network_of_weight_file(path(), {resnet18_network(settings_)}); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(std::string("has the names of ") + package));
  }
}

TEST_F(TorchWeights, ThatAreNotFiniteAreRefused) {
  arrays_[2].values[4] = std::nanf("");
  expect_refused("'fc.weight' has the value nan");
  EXPECT_EQ(read({"logits/*"}).variables.size(), 1u) << "the excluded values are not used";
}

TEST_F(TorchWeights, PositionsAreResizedToTheImage) {
  write_safetensors(path(), std::vector<NamedArray>{{"pos_embed", {1, 2, 1}, {7, 3}}});
  const auto read_positions = [&](const Shape& shape) {
    const ParameterSpec positions{.name = "tokens/positions", .shape = shape, .initializer = {}, .is_embedding = true};
    return read_weight_file(path(), vit_tiny_patch16_224_network(settings_), {positions}, {}, {}).variables.at(0);
  };
  const NamedArray resized = read_positions({1, 5, 1});
  EXPECT_THAT(resized.shape, ElementsAre(1, 5, 1));
  EXPECT_THAT(resized.values, ElementsAre(7, 3, 3, 3, 3));
  EXPECT_THAT(read_positions({1, 2, 1}).values, ElementsAre(7, 3));
  EXPECT_EQ(error_of([&] { read_positions({1, 4, 1}); }).code(), ExitCode::data);
}

TEST_F(TorchWeights, OfNetworksWithoutKnownNamesAreRefused) {
  EXPECT_EQ(error_of([&] { torch_arrays(resnet9_network(settings_), {}, {}); }).code(), ExitCode::usage);
  EXPECT_EQ(error_of([&] { read_weight_file(path(), resnet9_network(settings_), variables_, buffers_, {}); }).code(),
            ExitCode::usage);
  const std::vector<NamedArray> unknown{{"other/weights", {1}, {1}}};
  EXPECT_THAT(error_of([&] { torch_arrays(network_, unknown, {}); }).what(),
              HasSubstr("the description of resnet18 has no name of PyTorch for 'other/weights'"));
}

/// Returns an array of zeros for each spec.
std::vector<NamedArray> zeros_of(const auto& specs) {
  std::vector<NamedArray> arrays;
  for (const auto& spec : specs) {
    const auto count = static_cast<std::size_t>(spec.shape.element_count());
    arrays.push_back({spec.name, spec.shape.extents(), std::vector<float>(count)});
  }
  return arrays;
}

TEST(TorchArrays, AreThoseOfTheWholeStateDict) {
  const NetworkSettings settings{.image = {.height = 224, .width = 224, .channels = 3}, .outputs = 10};
  const std::map<std::string, MakeNetwork> networks{{"resnet18", resnet18_network},
                                                    {"resnet50", resnet50_network},
                                                    {"convnext_tiny", convnext_tiny_network},
                                                    {"vit_tiny_patch16_224", vit_tiny_patch16_224_network}};
  const std::map<std::string, StateDict> expected = state_dicts();
  ASSERT_EQ(expected.size(), networks.size());
  for (const auto& [name, make] : networks) {
    const Network network = make(settings);
    const Graph graph = build_network(network, {.batch_size = 1}).graph;
    StateDict found;
    for (const NamedArray& array : torch_arrays(network, zeros_of(graph.parameters()), zeros_of(graph.buffers()))) {
      found[array.name] = array.shape;
    }
    EXPECT_EQ(found, expected.at(name)) << name;
  }
}

/// Returns the networks that have PyTorch's names. The image size of these networks differs from the size in
/// state_dicts().
std::vector<Network> networks_of_torch() {
  std::vector<Network> networks;
  for (const MakeNetwork make :
       {resnet18_network, resnet34_network, resnet50_network, resnet101_network, resnet152_network,
        convnext_tiny_network, convnext_small_network, convnext_base_network, vit_tiny_patch16_224_network,
        vit_small_patch16_224_network, vit_base_patch16_224_network, vit_tiny_patch4_32_network}) {
    networks.push_back(make({.image = {.height = 64, .width = 64, .channels = 3}, .outputs = 1}));
  }
  return networks;
}

std::vector<TorchArray> arrays_of(const StateDict& dict) {
  std::vector<TorchArray> arrays;
  for (const auto& [array, shape] : dict) arrays.push_back({array, shape});
  return arrays;
}

TEST(NetworkWith, IsTheNetworkOfTheArrays) {
  const std::vector<Network> networks = networks_of_torch();
  for (const auto& [name, dict] : state_dicts()) {
    const Network* const found = network_with(arrays_of(dict), networks);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->name, name);
  }
  for (const Network& network : networks) {
    const Graph graph = build_network(network, {}).graph;
    std::vector<TorchArray> arrays;
    const auto add_arrays = [&](const auto& specs) {
      for (const auto& spec : specs) {
        arrays.push_back({network.torch_names.at(spec.name), torch_shape(spec.name, spec.shape.extents())});
      }
    };
    add_arrays(graph.parameters());
    add_arrays(graph.buffers());
    arrays.erase(arrays.begin() + 3);
    arrays.push_back({"an.array.of.another", {1}});
    EXPECT_EQ(network_with(arrays, networks)->name, network.name);
  }
}

TEST(NetworkWith, IsNoneForOtherArrays) {
  const std::vector<Network> networks = networks_of_torch();
  EXPECT_EQ(network_with({}, networks), nullptr);
  StateDict wide = state_dicts().at("resnet50");  // changed below to the shapes of wide_resnet50_2
  for (auto& [name, shape] : wide) {
    const auto has = [&](const char* part) { return name.find("layer") == 0 && name.find(part) != name.npos; };
    const bool is_wider = has("conv1") || has("conv2") || has("conv3") || has("bn1") || has("bn2");
    if (is_wider && !shape.empty()) shape[0] *= 2;
  }
  EXPECT_EQ(network_with(arrays_of(wide), networks), nullptr);
}

TEST(WeightFile, IsRecognisedByItsName) {
  EXPECT_TRUE(is_weight_file("a/b.safetensors"));
  EXPECT_FALSE(is_weight_file("runs/a"));
  EXPECT_FALSE(is_weight_file("best.ckpt.h5"));
}

TEST(WeightFile, PickledFilesAreRecognisedByTheirFirstBytes) {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& name, const std::string& first) {
    const std::filesystem::path path = directory.path() / name;
    write_text(path, first + "more");
    try {
      is_weight_file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused("model.pth.tar", "PK\x03\x04"));
  EXPECT_TRUE(refused("last.ckpt", "\x80\x02}"));
  EXPECT_TRUE(refused("a.safetensors", "PK\x03\x04"));
  EXPECT_FALSE(refused("a.npz", "PK\x03\x04"));
  EXPECT_FALSE(refused("of 640 bytes.safetensors", std::string("\x80\x02\0\0", 4))) << "the length of the header";
}

TEST(WeightFile, PickledFilesAreRefusedWithTheirConversion) {
  const TemporaryDirectory directory;
  for (const char* const name : {"a.pt", "a.pth", "pytorch_model.bin"}) {
    EXPECT_FALSE(is_weight_file(directory.path() / name)) << "absent: the reader says so";
    write_text(directory.path() / name, "");
    const Error error = error_of([&] { is_weight_file(directory.path() / name); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("weights_only=True"));
    EXPECT_THAT(error.what(), HasSubstr(".safetensors"));
  }
  const std::filesystem::path spaced = directory.path() / "a b";
  write_text(spaced.string() + ".pt", "");
  EXPECT_THAT(error_of([&] { is_weight_file(spaced.string() + ".pt"); }).what(),
              HasSubstr(fmt::format(" '{0}.pt' '{0}.safetensors'", spaced.string())));
}

}  // namespace
}  // namespace carillon::testing
