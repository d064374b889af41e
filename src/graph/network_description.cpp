#include "carillon/graph/network_description.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view image_name = "image";
constexpr std::size_t max_ops = 10'000, max_attributes = 100, max_name_bytes = 500;

/// More elements than any memory holds; sizes below this bound do not overflow when they are multiplied by a type's
/// size. Errors: data.
void check_size(const Shape& shape, const std::string& name) {
  constexpr std::int64_t limit = std::int64_t{1} << 40;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape.extents()) {
    if (extent <= 0 || __builtin_mul_overflow(count, extent, &count) || count > limit) {
      fail(ExitCode::data, "'{}' has the shape {}", name, shape.text());
    }
  }
}

/// Adds one op and checks the sizes of what it adds.
Value add_described(Graph& graph, const OpDescription& op, const std::map<std::string, Value, std::less<>>& values) {
  std::vector<Value> inputs;
  for (const std::string& input : op.inputs) {
    const auto found = values.find(input);
    if (found == values.end())
      fail(ExitCode::data, "the op '{}' reads '{}', which no op before it computes", op.name, input);
    inputs.push_back(found->second);
  }
  if (static_cast<int>(inputs.size()) != op.type->input_count) {
    fail(ExitCode::data, "the op '{}' of type {} has {} inputs, expected {}", op.name, op.type->name, inputs.size(),
         op.type->input_count);
  }
  const std::size_t first = graph.parameters().size();
  Value output;
  graph.set_block(op.block);
  try {
    output = op.type->build(graph, op.name, inputs, op.attributes);
  } catch (const Error& error) {
    fail(error.code(), "the op '{}' of type {}: {}", op.name, op.type->name, error.what());
  }
  check_size(graph.shape(output), op.name);
  for (std::size_t i = first; i < graph.parameters().size(); ++i) {
    check_size(graph.parameters()[i].shape, graph.parameters()[i].name);
  }
  return output;
}

/// The double whose shortest text equals the shortest text of `value`: 0.1, not 0.10000000149.
double readable(float value) {
  check(std::isfinite(value), "an attribute of the network is not finite");
  const double read = std::stod(fmt::format("{}", value));
  return static_cast<float>(read) == value ? read : double{value};
}

Json json_of(const Attributes::Value& value) {
  if (const float* const number = std::get_if<float>(&value)) return readable(*number);
  if (const std::vector<float>* const numbers = std::get_if<std::vector<float>>(&value)) {
    Json list = Json::array();
    for (const float number : *numbers) list.push_back(readable(number));
    return list;
  }
  return std::visit([](const auto& other) { return Json(other); }, value);
}

Attributes::Value attribute_of(const std::string& name, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) return value.get<float>();
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) fail(ExitCode::data, "the attribute '{}' has no known type", name);
  const auto is_integer = [](const Json& element) { return element.is_number_integer(); };
  const auto is_number = [](const Json& element) { return element.is_number(); };
  if (std::ranges::all_of(value, is_integer)) return value.get<std::vector<std::int64_t>>();
  if (std::ranges::all_of(value, is_number)) return value.get<std::vector<float>>();
  fail(ExitCode::data, "the attribute '{}' is no list of numbers", name);
}

/// A name that messages and files can hold. Errors: data.
std::string name_in(const Json& value, std::string_view what) {
  const std::string name = value.get<std::string>();
  const auto is_control = [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; };
  if (name.empty() || name.size() > max_name_bytes || std::ranges::any_of(name, is_control)) {
    fail(ExitCode::data, "the name of {} is empty, too long, or has control characters", what);
  }
  return name;
}

OpDescription op_in(const Json& op, std::span<const OpType* const> types) {
  OpDescription read{.name = name_in(op.at("name"), "an op"), .inputs = {}, .attributes = {}};
  const std::string type = name_in(op.at("type"), "an op type");
  const auto known = std::ranges::find(types, std::string_view(type), [](const OpType* of) { return of->name; });
  if (known == types.end()) {
    fail(ExitCode::data, "the network has an op of type {}, which this program does not have", type);
  }
  read.type = *known;
  for (const Json& input : op.at("inputs")) {
    const std::string name = name_in(input, "an input");
    if (name != image_name) read.inputs.push_back(name);
  }
  if (op.contains("block")) {
    read.block = op.at("block").get<int>();
    if (read.block < 0) fail(ExitCode::data, "the block of the op '{}' is negative", read.name);
  }
  if (!op.contains("attributes")) return read;
  if (op.at("attributes").size() > max_attributes) {
    fail(ExitCode::data, "the op '{}' has more than {} attributes", read.name, max_attributes);
  }
  for (const auto& [name, value] : op.at("attributes").items()) read.attributes.set(name, attribute_of(name, value));
  return read;
}

}  // namespace

NetworkDescription describe_network(const std::string& name, const ImageShape& image,
                                    const std::function<Value(Graph& graph)>& add_layers) {
  Graph graph(1, Arithmetic::fp32, {.image = image});
  const Value output = add_layers(graph);
  NetworkDescription network{.name = name, .image = image, .ops = {}, .output = {}};
  const auto name_of = [&](int value) { return graph.nodes().at(graph.values().at(value).producer).name; };
  for (const Graph::Node& node : graph.nodes()) {
    if (node.type == nullptr) {
      fail(ExitCode::failed, "the op '{}' of type {} has no OpType, which a network requires", node.name,
           node.definition->type());
    }
    const auto has_its_name = [&](const OpDescription& other) { return other.name == node.name; };
    if (std::ranges::any_of(network.ops, has_its_name)) {
      fail(ExitCode::failed, "the network has two ops named '{}'", node.name);
    }
    OpDescription op{
        .name = node.name, .type = node.type, .inputs = {}, .attributes = node.attributes, .block = node.block};
    for (const int input : node.inputs) op.inputs.push_back(name_of(input));
    network.ops.push_back(std::move(op));
  }
  network.output = name_of(output.index);
  return network;
}

Value add_network(Graph& graph, const NetworkDescription& network) {
  std::map<std::string, Value, std::less<>> values;
  for (const OpDescription& op : network.ops) {
    const Value output = add_described(graph, op, values);
    if (!values.emplace(op.name, output).second) fail(ExitCode::data, "the network has two ops named '{}'", op.name);
  }
  graph.set_block(-1);
  const auto found = values.find(network.output);
  if (found == values.end()) fail(ExitCode::data, "no op computes the output '{}'", network.output);
  return found->second;
}

bool has_op(const NetworkDescription& network, std::string_view type) {
  return std::ranges::any_of(network.ops, [&](const OpDescription& op) { return op.type->name == type; });
}

std::string description_text(const NetworkDescription& network) {
  const ImageShape& image = network.image;
  Json ops = Json::array();
  for (const OpDescription& op : network.ops) {
    Json& text = ops.emplace_back();
    text["name"] = op.name;
    text["type"] = op.type->name;
    text["inputs"] = op.inputs.empty() ? std::vector<std::string>{std::string(image_name)} : op.inputs;
    if (op.block >= 0) text["block"] = op.block;
    for (const auto& [name, value] : op.attributes.values()) text["attributes"][name] = json_of(value);
  }
  Json text;
  text["name"] = network.name;
  text["inputs"] =
      Json::array({{{"name", image_name}, {"type", "uint8"}, {"shape", {image.height, image.width, image.channels}}}});
  text["ops"] = std::move(ops);
  text["outputs"] = Json::array({network.output});
  return text.dump();
}

NetworkDescription read_description(const std::string& text, std::span<const OpType* const> types) {
  try {
    const Json json = Json::parse(text);
    const Json& input = json.at("inputs").at(0);
    const auto shape = input.at("shape").get<std::vector<std::int64_t>>();
    const bool is_image = shape.size() == 3 && std::ranges::all_of(shape, [](std::int64_t extent) {
                            return extent > 0 && extent <= std::int64_t{1} << 20;
                          });
    if (!is_image || json.at("inputs").size() != 1 || input.at("name") != image_name ||
        json.at("outputs").size() != 1) {
      fail(ExitCode::data, "the network has other inputs than one image, or several outputs");
    }
    NetworkDescription network{.name = name_in(json.at("name"), "the network"),
                               .image = {shape[0], shape[1], shape[2]},
                               .ops = {},
                               .output = name_in(json.at("outputs").at(0), "the output")};
    if (json.at("ops").size() > max_ops) fail(ExitCode::data, "the network has more than {} ops", max_ops);
    for (const Json& op : json.at("ops")) network.ops.push_back(op_in(op, types));
    return network;
  } catch (const Json::exception& error) {
    fail(ExitCode::data, "the description of the network is damaged: {}", error.what());
  }
}

}  // namespace carillon
