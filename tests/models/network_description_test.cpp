#include "carillon/graph/network_description.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "carillon/core/error.h"
#include "kernels/elementwise/gradient_ops.h"
#include "kernels/shared/op_types.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::vector<Network> described_networks() {
  std::vector<Network> networks = all_networks();
  networks.push_back(resnet50_network(cifar10_images({.drop_path = 0.1f})));
  networks.push_back(airbench96_network(cifar10_images()));
  networks.push_back(convnext_tiny_network(cifar10_images()));
  networks.push_back(vit_tiny_patch16_224_network(cifar10_images()));
  return networks;
}

TEST(NetworkDescription, IsEqualAfterItWasWrittenAndRead) {
  for (const Network& network : described_networks()) {
    const std::string text = description_text(network);
    const NetworkDescription read = read_description(text, op_types());
    EXPECT_EQ(read, static_cast<const NetworkDescription&>(network)) << network.name;
    EXPECT_EQ(description_text(read), text) << network.name;
  }
}

TEST(NetworkDescription, HoldsNothingOfATraining) {
  const Network plain = airbench94_network(cifar10_images());
  const Network trained = airbench94_network(cifar10_images({.distort = true, .record_count = 99, .seed = 7}));
  EXPECT_EQ(description_text(plain), description_text(trained));
}

TEST(NetworkDescription, NamesOutputsOfOpsWithSeveral) {
  const Json json = Json::parse(description_text(parted_network()));
  EXPECT_EQ(json["ops"][2].dump(),
            R"({"name":"channels","type":"split","inputs":["patches"],"attributes":{"sizes":[8,4,8]}})");
  EXPECT_EQ(json["ops"][3]["inputs"].dump(), R"(["channels"])");
  EXPECT_EQ(json["ops"][5]["inputs"].dump(), R"(["channels:2"])");
}

TEST(NetworkDescription, HasAnInputOfAnyName) {
  Json json = Json::parse(description_text(mnist_network(mnist_images())));
  json["inputs"][0]["name"] = "pixels";
  json["ops"][0]["inputs"] = {"pixels"};
  json["ops"][1]["name"] = "image";
  json["ops"][2]["inputs"] = {"image"};
  const NetworkDescription network = read_description(json.dump(), op_types());
  EXPECT_EQ(network.input, "pixels");
  EXPECT_EQ(description_text(network), json.dump());
  EXPECT_EQ(build_network(Network{network}, {}).graph.parameters().at(0).name, "image/weights");
}

TEST(NetworkDescription, StatesTheOpsOfANetwork) {
  const Network network = mnist_network({.image = {28, 28, 1}, .outputs = 10, .pixel_scale = 0.1f});
  EXPECT_EQ(description_text(network),
            R"({"name":"mnist","inputs":[{"name":"image","type":"uint8","shape":[28,28,1]}],"ops":[)"
            R"({"name":"input","type":"image_input","inputs":["image"],"attributes":{"scale":0.1}},)"
            R"({"name":"layer1","type":"dense","inputs":["input"],"attributes":{"units":500,)"
            R"("weights":"truncated_normal","weights.number":0,"weights.value":0.1}},)"
            R"({"name":"layer1/relu","type":"relu","inputs":["layer1"]},)"
            R"({"name":"layer2","type":"dense","inputs":["layer1/relu"],"attributes":{"units":10,)"
            R"("weights":"truncated_normal","weights.number":2,"weights.value":0.1}}],"outputs":["layer2"]})");
}

/// Returns the description of a network with one op of `type`. If this op is not an input op, an input op precedes it.
std::string text_with(const OpType& type, const Json& attributes) {
  Json ops = Json::array();
  const auto add = [&](const char* name, std::string_view type_name, const Json& inputs, const Json& of) {
    Json op = {{"name", name}, {"type", type_name}, {"inputs", inputs}};
    if (!of.empty()) op["attributes"] = of;
    ops.push_back(op);
  };
  const bool is_attention = type.name == "attention";
  if (!type.reads_records) add("x", "image_input", {"image"}, {});
  if (is_attention) add("tokens", "embed_tokens", {"x"}, {});
  const char* const before = is_attention ? "tokens" : type.reads_records ? "image" : "x";
  const bool has_input = type.reads_records || type.input_count != 0;
  add("op", type.name, has_input ? Json{before} : Json::array(), attributes);
  add("last", "dense", {"op"}, {{"units", 2}});
  const Json image = {{"name", "image"}, {"type", "uint8"}, {"shape", {24, 24, is_attention ? 18 : 3}}};
  const Json network = {{"name", "n"}, {"inputs", {image}}, {"ops", ops}, {"outputs", {"last"}}};
  const NetworkDescription read = read_description(network.dump(), op_types());
  return description_text(describe_network("n", read.image, [&](Graph& graph) { return add_network(graph, read); }));
}

/// Checkpoints omit an attribute if its value equals the default. So if a default changed, stored networks would
/// change.
TEST(NetworkDescription, HasTheseDefaultsForever) {
  const std::string weights = R"("weights":"constant","weights.value":0.0,"weights.number":-1,"weights.dirac":false,)"
                              R"("biases":"constant","biases.value":0.0,"biases.number":-1,"biases.dirac":false,)"
                              R"("l2_factor":0.0)";
  const std::string widths = R"("window_width":0,"stride_width":0,"pads":[])";
  const std::string kernel_width = R"("kernel_width":0,"stride_width":0,"pads":[])";
  const std::map<std::string, std::string, std::less<>> defaults{
      {"attention", R"({"heads":6})"},
      {"avg_pool", R"({"stride":1,"padding":"same","counts_padding":false,)" + widths + "}"},
      {"batch_norm", R"({"epsilon":1e-05,"momentum":0.1,"trains_scale":true,"initial_scale":1.0})"},
      {"clip", R"({"least":-3.4028234663852886e38,"most":3.4028234663852886e38})"},
      {"concat", R"({"axis":-1})"},
      {"constant", R"({"shape":[]})"},
      {"conv2d", R"({"stride":1,"padding":"same","trains_weights":true,"groups":1,"dilation":1,"dilation_width":0,)" +
                     kernel_width + "," + weights + "}"},
      {"dense", R"({"input_density":1.0,"per_position":false,)" + weights + "}"},
      {"depthwise_conv2d", R"({"stride":1,"padding":"same",)" + kernel_width + "," + weights + "}"},
      {"drop_path", R"({"rate":0.5})"},
      {"dropout", R"({"rate":0.5})"},
      {"embed_tokens", R"({"class_token":"constant","class_token.value":0,"class_token.number":-1,)"
                       R"("class_token.dirac":false,"positions":"constant","positions.value":0,)"
                       R"("positions.number":-1,"positions.dirac":false})"},
      {"gather", R"({"axis":-1,"weights":[],"terms":1})"},
      {"hard_sigmoid", R"({"alpha":0.16666667,"beta":0.5})"},
      {"image_input", R"({"values":"scaled","scale":1.0,"mean":[0,0,0,0],"deviation":[1,1,1,1],"brightness":0.0,)"
                      R"("contrast":[1,1],"crop_height":0,"crop_width":0,"padding":0,"padding_mode":"zero",)"
                      R"("mirroring":"none","cutout":0})"},
      {"layer_norm", R"({"epsilon":1e-06})"},
      {"leaky_relu", R"({"slope":0.01})"},
      {"lrn", R"({"depth_radius":4,"bias":1.0,"alpha":0.00011111112,"beta":0.75})"},
      {"mean", R"({"keeps_axes":false})"},
      {"max_pool", R"({"stride":1,"padding":"same",)" + widths + "}"},
      {"pad", R"({"value":0.0})"},
      {"scale", R"({"factor":1.0})"},
      {"scale_channels", R"({"initial_factor":1e-06})"},
      {"shift", R"({"amount":0.0})"},
      {"reshape", R"({})"},
      {"slice", R"({"axis":-1,"first":0,"count":1,"step":1})"},
      {"split", R"({"axis":-1})"},
      {"transpose", R"({})"},
      {"variable",
       R"({"trains":true,"values":"constant","values.value":0.0,"values.number":-1,"values.dirac":false})"}};
  const std::map<std::string, Json, std::less<>> required{{"avg_pool", {{"window", 2}}},
                                                          {"constant", {{"values", {0.5}}}},
                                                          {"conv2d", {{"filters", 2}, {"kernel", 3}}},
                                                          {"dense", {{"units", 2}}},
                                                          {"depthwise_conv2d", {{"kernel", 3}}},
                                                          {"gather", {{"indices", {0, 2}}}},
                                                          {"max_pool", {{"window", 2}}},
                                                          {"mean", {{"axes", {1}}}},
                                                          {"pad", {{"before", {1, 2, 3}}, {"after", {1, 2, 3}}}},
                                                          {"reshape", {{"extents", {3, -1}}}},
                                                          {"split", {{"sizes", {1, 2}}}},
                                                          {"transpose", {{"axes", {0, 3, 1, 2}}}},
                                                          {"variable", {{"shape", {3}}}}};
  const std::set<std::string_view> without_attributes{
      "add",        "erf",      "exp",        "first_token", "gelu",    "global_avg_pool",
      "hard_swish", "multiply", "reciprocal", "relu",        "sigmoid", "softmax",
      "silu",       "sqrt",     "tanh"};
  for (const OpType* type : op_types()) {
    if (without_attributes.contains(type->name)) continue;
    if (type->name == "matmul") continue;  // the sizes in x times x match only if one x is transposed
    SCOPED_TRACE(type->name);
    const auto found = defaults.find(type->name);
    ASSERT_NE(found, defaults.end());
    const auto needed = required.find(type->name);
    const Json given = needed != required.end() ? needed->second : Json::object();
    Json all = Json::parse(found->second);
    all.update(given);
    EXPECT_EQ(text_with(*type, all), text_with(*type, given));
  }
}

TEST(NetworkDescription, GivesEqualVariablesForAnyBatchSize) {
  for (const Network& network : described_networks()) {
    const Graph one = build_network(network, {.batch_size = 1}).graph;
    const Graph many = build_network(network, {.batch_size = 7}).graph;
    ASSERT_EQ(one.parameters().size(), many.parameters().size());
    for (std::size_t i = 0; i < one.parameters().size(); ++i) {
      EXPECT_EQ(one.parameters()[i].name, many.parameters()[i].name);
      EXPECT_EQ(one.parameters()[i].shape, many.parameters()[i].shape);
    }
  }
}

/// Returns the description of a small network, after `change` has changed its JSON.
std::string changed(const std::function<void(Json&)>& change) {
  Json json = Json::parse(description_text(mnist_network(mnist_images())));
  change(json);
  return json.dump();
}

/// Reads a description and builds its network. Returns the Error that this throws.
Error error_of_text(const std::string& text) {
  return error_of([&] {
    Network network{read_description(text, op_types())};
    build_network(network, {.purpose = Purpose::evaluation});
  });
}

TEST(NetworkDescription, IsRefusedWithItsOpIfItIsWrong) {
  const std::vector<std::pair<std::function<void(Json&)>, std::string>> cases{
      {[](Json& json) { json["ops"][1]["type"] = "swish"; },
       "the network has an op of type swish, which this program does not have"},
      {[](Json& json) { json["ops"][1]["inputs"] = {"layer2"}; },
       "the op 'layer1' reads 'layer2', which no op before it computes"},
      {[](Json& json) { json["ops"][1]["inputs"] = {"layer1"}; }, "reads 'layer1', which no op before it computes"},
      {[](Json& json) { json["ops"][2]["name"] = "layer1"; }, "the network has two ops named 'layer1'"},
      {[](Json& json) {
         json["ops"][2]["inputs"] = {"layer1", "input"};
       },
       "has 2 inputs, expected 1"},
      {[](Json& json) {
         json["ops"][2]["type"] = "concat";
         json["ops"][2]["inputs"] = Json::array();
       },
       "of type concat has no inputs"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = "many"; },
       "the op 'layer1' of type dense: the attribute 'units' is not an integer"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = 3'000'000'000; }, "is not an integer within 2^31"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = 2'000'000'000; }, "'layer1/weights' has the shape"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = -1; }, "'layer1' has the shape"},
      {[](Json& json) { json["ops"][1]["attributes"]["colour"] = 1; }, "the attribute 'colour' is not known"},
      {[](Json& json) { json["ops"][1]["attributes"]["weights"] = "normal"; },
       "the attribute 'weights' is not one of constant truncated_normal uniform"},
      {[](Json& json) { json["ops"][1]["attributes"]["l2_factor"] = 1e300; },
       "the attribute 'l2_factor' is outside the range of float32"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = Json::object(); }, "'units' has no known type"},
      {[](Json& json) { json["ops"][1]["name"] = "a\nb"; }, "the name of an op is empty, too long, or has control"},
      {[](Json& json) { json["ops"] = 5; }, "the description of the network is damaged"},
      {[](Json& json) { json["outputs"] = {"none"}; }, "no op computes the output 'none'"},
      {[](Json& json) {
         json["inputs"][0]["shape"] = {28, 28};
       },
       "the network has other inputs than one uint8 image"},
      {[](Json& json) { json["ops"][1]["block"] = -1; }, "the block of 'layer1' is no integer from 0"},
      {[](Json& json) { json["ops"][1]["inputs"] = "input"; }, "the op 'layer1' has no list of inputs"},
      {[](Json& json) { json["ops"][1]["inputs"] = Json::array(); }, "has 0 inputs, expected 1"},
      {[](Json& json) { json["ops"][0]["inputs"] = Json::array(); },
       "the op 'input' of type image_input does not read the network's input 'image'"},
      {[](Json& json) { json["ops"][1]["inputs"] = {"image"}; }, "reads 'image', which no op before it computes"},
      {[](Json& json) { json["ops"][1]["inputs"] = {"input:1"}; }, "reads 'input:1', which no op before it computes"},
      {[](Json& json) { json["ops"][1]["name"] = "image"; }, "an op is named 'image'"},
      {[](Json& json) {
         json["inputs"][0]["shape"] = {1 << 20, 1 << 20, 4};
       },
       "the network has images of 1048576 x"},
      {[](Json& json) { json["inputs"][0]["type"] = "float32"; }, "other inputs than one uint8 image"},
      {[](Json& json) {
         for (int i = 0; i < 101; ++i) json["ops"][1]["attributes"]["a" + std::to_string(i)] = i;
       },
       "the op 'layer1' has more than 100 attributes"},
      {[](Json& json) { json["ops"] = Json::array_t(10'001, json["ops"][0]); }, "the network has more than 10000 ops"},
      {[](Json& json) { json["outputs"] = {"input"}; }, "the network's output has the shape"},
      {[](Json& json) { json.erase("ops"); }, "the description of the network is damaged"}};
  for (const auto& [change, message] : cases) {
    const Error error = error_of_text(changed(change));
    EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
  EXPECT_EQ(error_of_text("{").code(), ExitCode::data);
  EXPECT_EQ(error_of_text(std::string(100'000, '[')).code(), ExitCode::data);
}

TEST(NetworkDescription, NumbersTheBlocksOfAllStages) {
  for (const auto& [network, count] : {std::pair{resnet18_network(cifar10_images()), 8},
                                       {convnext_tiny_network(cifar10_images()), 18},
                                       {vit_tiny_patch4_32_network(cifar10_images()), 12}}) {
    std::set<int> blocks;
    const Graph graph = build_network(network, {.purpose = Purpose::evaluation}).graph;
    for (const ParameterSpec& variable : graph.parameters()) {
      EXPECT_EQ(variable.block >= 0, variable.name.find("block") != std::string::npos) << variable.name;
      blocks.insert(variable.block);
    }
    EXPECT_EQ(static_cast<int>(blocks.size()), count + 1) << network.name;
    EXPECT_EQ(*blocks.rbegin(), count - 1) << network.name;
  }
}

/// For any text, the functions that read and build a network must return a network or throw our Error. There must be no
/// crash, no other exception and no endless loop.
TEST(NetworkDescription, OfChangedBytesIsBuiltOrRefused) {
  int refused = 0;
  std::mt19937 random(7);
  for (const Network& network :
       {lenet_network(mnist_images()), cifar10_network(cifar10_images()), airbench94_network(cifar10_images()),
        vit_tiny_patch4_32_network(cifar10_images()), attending_network()}) {
    const std::string text = description_text(network);
    for (int i = 0; i < 300; ++i) {
      std::string changed = text;
      for (auto count = random() % 3 + 1; count > 0; --count) {
        const char* const bytes = "0123456789-.e\"[]{},:tfn\\";
        changed[random() % changed.size()] = bytes[random() % 24];
      }
      try {
        Network read{read_description(changed, op_types())};
        build_network(read, {.purpose = Purpose::evaluation});
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(NetworkDescription, WritesOnlyWhatItReads) {
  const auto error_of_op = [](const std::string& name) {
    return std::string(error_of([&] {
                         make_network("n", {.image = {4, 4, 1}}, [&](Graph& graph) {
                           const Value x = image_input(graph, "input", {.sample = {4, 4, 1}});
                           return dense(graph, name, x, {.units = 2});
                         });
                       }).what());
  };
  EXPECT_THAT(error_of_op("image"), HasSubstr("an op is named 'image', which is the name of the network's input"));
  EXPECT_THAT(error_of_op("a\tb"), HasSubstr("has control characters"));
  EXPECT_THAT(error_of_op(std::string(501, 'a')), HasSubstr("is empty, too long"));
  EXPECT_THAT(error_of_op("\xff"), HasSubstr("is no UTF-8 text"));
  const Error error = error_of([] {
    make_network("n", {.image = {4, 4, 1}}, [](Graph& graph) {
      return image_input(graph, "x", {.sample = {4, 4, 1}});
    });
  });
  EXPECT_THAT(error.what(), HasSubstr("expected [batch, outputs]"));
}

TEST(NetworkDescription, RequiresAnOpTypeOfEachOp) {
  const Error error = error_of([] {
    make_network("own", {.image = {4, 4, 1}}, [](Graph& graph) {
      const Value x = image_input(graph, "input", {.sample = {4, 4, 1}});
      Graph::NewOp op = fork_op();
      op.name = "own";
      op.inputs = {x};
      return graph.add_op(std::move(op), graph.shape(x));
    });
  });
  EXPECT_THAT(error.what(), HasSubstr("the op 'own' of type fork has no OpType"));
}

}  // namespace
}  // namespace carillon::testing
