#include "carillon/graph/network_description.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "carillon/core/error.h"
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

TEST(NetworkDescription, StatesTheOpsOfANetwork) {
  const Network network = mnist_network({.image = {28, 28, 1}, .outputs = 10, .pixel_scale = 0.1f});
  EXPECT_EQ(description_text(network),
            R"({"name":"mnist","inputs":[{"name":"image","type":"uint8","shape":[28,28,1]}],"ops":[)"
            R"({"name":"input","type":"scale_input","inputs":["image"],"attributes":{"scale":0.1}},)"
            R"({"name":"layer1","type":"dense","inputs":["input"],"attributes":{"units":500,)"
            R"("weights":"truncated_normal","weights.value":0.1,"weights.number":0}},)"
            R"({"name":"layer1/relu","type":"relu","inputs":["layer1"]},)"
            R"({"name":"layer2","type":"dense","inputs":["layer1/relu"],"attributes":{"units":10,)"
            R"("weights":"truncated_normal","weights.value":0.1,"weights.number":2}}],"outputs":["layer2"]})");
}

/// Attributes that equal a default are omitted from checkpoints, so a changed default would change stored networks.
TEST(NetworkDescription, HasTheseDefaultsForever) {
  const auto values_of = [](const std::string& type, const Json& attributes) {
    const Json input = {{"name", "x"}, {"type", "normalize_images"}, {"inputs", {"image"}}};
    Json op = {{"name", "op"}, {"type", type}, {"inputs", {"x"}}};
    if (!attributes.is_null()) op["attributes"] = attributes;
    const Json network = {{"name", "n"},
                          {"inputs", {{{"name", "image"}, {"type", "uint8"}, {"shape", {12, 12, 3}}}}},
                          {"ops", {input, op}},
                          {"outputs", {"op"}}};
    return description_text(describe_network("n", {12, 12, 3}, [&](Graph& graph) {
      return add_network(graph, read_description(network.dump(), op_types()));
    }));
  };
  const std::vector<std::pair<std::string, std::string>> defaults{
      {"conv2d", R"({"kernel":3,"stride":1,"padding":"same","weights":"constant","weights.value":0.0,)"
                 R"("biases":"constant","biases.value":0.0,"l2_factor":0.0,"trains_weights":true})"},
      {"depthwise_conv2d", R"({"kernel":3,"stride":1,"padding":"same","weights":"constant","biases":"constant"})"},
      {"dense", R"({"units":0,"weights":"constant","biases":"constant","input_density":1.0,"per_position":false})"},
      {"batch_norm", R"({"epsilon":1e-05,"momentum":0.1,"trains_scale":true,"initial_scale":1.0})"},
      {"layer_norm", R"({"epsilon":1e-06})"},
      {"lrn", R"({"depth_radius":4,"bias":1.0,"alpha":0.00011111112,"beta":0.75})"},
      {"scale_channels", R"({"initial_factor":1e-06})"},
      {"max_pool", R"({"window":0,"stride":1,"padding":"same"})"},
      {"dropout", R"({"rate":0.5})"},
      {"drop_path", R"({"rate":0.5})"},
      {"scale", R"({"factor":1.0})"}};
  for (const auto& [type, attributes] : defaults) {
    Json all = Json::parse(attributes), required;
    if (type == "conv2d") all["filters"] = required["filters"] = 2;
    if (type == "dense") all["units"] = required["units"] = 2;
    if (type.ends_with("conv2d")) required["kernel"] = 3;
    EXPECT_EQ(values_of(type, all), values_of(type, required)) << type;
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

/// The text of a small network after a change.
std::string changed(const std::function<void(Json&)>& change) {
  Json json = Json::parse(description_text(mnist_network(mnist_images())));
  change(json);
  return json.dump();
}

/// The error of a description that is read and built.
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
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = "many"; },
       "the op 'layer1' of type dense: the attribute 'units' is not an integer"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = 3'000'000'000; }, "is not an integer within 2^31"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = 2'000'000'000; }, "'layer1/weights' has the shape"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = -1; }, "'layer1' has the shape"},
      {[](Json& json) { json["ops"][1]["attributes"]["colour"] = 1; }, "it has an attribute that is not known"},
      {[](Json& json) { json["ops"][1]["attributes"]["weights"] = "normal"; },
       "the attribute 'weights' is not one of constant truncated_normal uniform"},
      {[](Json& json) { json["ops"][1]["attributes"]["l2_factor"] = 1e300; },
       "the attribute 'l2_factor' is not finite"},
      {[](Json& json) { json["ops"][1]["attributes"]["units"] = Json::object(); }, "'units' has no known type"},
      {[](Json& json) { json["ops"][1]["name"] = "a\nb"; }, "the name of an op is empty, too long, or has control"},
      {[](Json& json) { json["ops"] = 5; }, "the description of the network is damaged"},
      {[](Json& json) { json["outputs"] = {"none"}; }, "no op computes the output 'none'"},
      {[](Json& json) {
         json["inputs"][0]["shape"] = {28, 28};
       },
       "the network has other inputs than one image"},
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

TEST(NetworkDescription, RequiresAnOpTypeOfEachOp) {
  const Error error = error_of([] {
    make_network("own", {.image = {4, 4, 1}}, [](Graph& graph) {
      const Value x = scale_input(graph, "input", {.sample = {4, 4, 1}});
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
