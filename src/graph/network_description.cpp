#include "carillon/graph/network_description.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using Json = nlohmann::json;                 // this type sorts members, so it finds a member in logarithmic time
using OrderedJson = nlohmann::ordered_json;  // this type keeps members in the order in which they were added, as texts
                                             // require

// Limits of descriptions, for writing and for reading.
constexpr std::size_t max_attributes = 100, max_name_bytes = 500;
constexpr std::int64_t max_image_bytes = std::int64_t{1} << 30;

void check_name(std::string_view name, std::string_view what, ExitCode code) {
  const auto is_control = [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; };
  if (name.empty() || name.size() > max_name_bytes || std::ranges::any_of(name, is_control)) {
    fail(code, "the name of {} is empty, too long, or has control characters", what);
  }
}

void check_image(const ImageShape& image, ExitCode code) {
  std::int64_t bytes = 1;
  for (const std::int64_t extent : {image.height, image.width, image.channels}) {
    if (extent <= 0 || extent > max_image_bytes || (bytes *= extent) > max_image_bytes) {
      fail(code, "the network has images of {} x {} x {}", image.height, image.width, image.channels);
    }
  }
}

void check_op(const OpDescription& op, std::string_view input, ExitCode code) {
  check_name(op.name, "an op", code);
  if (op.name == input) fail(code, "an op is named '{}', which is the name of the network's input", input);
  if (op.shared.size() > max_attributes) {
    fail(code, "the op '{}' shares more than {} variables", op.name, max_attributes);
  }
  if (op.attributes.values().size() > max_attributes) {
    fail(code, "the op '{}' has more than {} attributes", op.name, max_attributes);
  }
}

void check_op_count(std::size_t count, ExitCode code) {
  if (count > max_network_ops) fail(code, "the network has more than {} ops", max_network_ops);
}

/// Checks that the output is [batch, outputs]. Errors: `code`.
void check_output(const Shape& output, ExitCode code) {
  if (output.rank() != 2) fail(code, "the network's output has the shape {}, expected [batch, outputs]", output.text());
}

/// Refuses extents that are not positive. Also refuses more elements than any memory can hold, so that sizes in bytes
/// do not overflow. Errors: data.
void check_size(const Shape& shape, const std::string& name) {
  constexpr std::int64_t limit = std::int64_t{1} << 40;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape.extents()) {
    if (extent <= 0 || __builtin_mul_overflow(count, extent, &count) || count > limit) {
      fail(ExitCode::data, "'{}' has the shape {}", name, shape.text());
    }
  }
}

/// Adds one op and checks the sizes of the values and variables that the op adds. Returns the outputs of this op.
/// `values`: the outputs of the earlier ops, by name.
std::vector<Value> add_described(Graph& graph, const OpDescription& op, std::string_view network_input,
                                 const std::map<std::string, Value, std::less<>>& values) {
  std::span<const std::string> names = op.inputs;
  if (op.type->reads_records) {
    if (names.empty() || names.front() != network_input) {
      fail(ExitCode::data, "the op '{}' of type {} does not read the network's input '{}'", op.name, op.type->name,
           network_input);
    }
    names = names.subspan(1);
  }
  std::vector<Value> inputs;
  for (const std::string& input : names) {
    const auto found = values.find(input);
    if (found == values.end())
      fail(ExitCode::data, "the op '{}' reads '{}', which no op before it computes", op.name, input);
    inputs.push_back(found->second);
  }
  if (op.type->input_count == OpType::any_inputs) {
    if (inputs.empty()) fail(ExitCode::data, "the op '{}' of type {} has no inputs", op.name, op.type->name);
  } else if (static_cast<int>(inputs.size()) != op.type->input_count) {
    fail(ExitCode::data, "the op '{}' of type {} has {} inputs, expected {}", op.name, op.type->name, inputs.size(),
         op.type->input_count);
  }
  const std::size_t first = graph.parameters().size();
  std::vector<Value> outputs;
  graph.set_block(op.block);
  try {
    for (const auto& [own, shared] : op.shared) graph.share_parameter(own, shared);
    outputs = op.type->build(graph, op.name, inputs, op.attributes);
  } catch (const Error& error) {
    fail(error.code(), "the op '{}' of type {}: {}", op.name, op.type->name, error.what());
  }
  for (const Value output : outputs) {
    std::vector<std::int64_t> sample = graph.shape(output).extents();
    if (sample.empty()) fail(ExitCode::data, "the op '{}' of type {} computes a scalar", op.name, op.type->name);
    sample.erase(sample.begin());  // removes the batch size, which users choose
    check_size(Shape(std::move(sample)), op.name);
  }
  for (std::size_t i = first; i < graph.parameters().size(); ++i) {
    check_size(graph.parameters()[i].shape, graph.parameters()[i].name);
  }
  return outputs;
}

/// Returns the double with the same shortest decimal text as the float `value`: 0.1, not 0.10000000149. Exception: the
/// shortest text of the largest float is a larger number, which float_in would refuse.
double readable(float value) {
  check(std::isfinite(value), "an attribute of the network is not finite");
  const double read = std::stod(fmt::format("{}", value));
  const bool is_in_range = std::abs(read) <= std::numeric_limits<float>::max();
  return is_in_range && static_cast<float>(read) == value ? read : double{value};
}

OrderedJson json_of(const Attributes::Value& value) {
  if (const float* const number = std::get_if<float>(&value)) return readable(*number);
  if (const std::vector<float>* const numbers = std::get_if<std::vector<float>>(&value)) {
    OrderedJson list = OrderedJson::array();
    for (const float number : *numbers) list.push_back(readable(number));
    return list;
  }
  return std::visit([](const auto& other) { return OrderedJson(other); }, value);
}

/// Reads an integer from 0 to `most`. Errors: data (`value` is anything else).
std::int64_t size_in(const Json& value, std::string_view what, std::int64_t most) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    fail(ExitCode::data, "{} is no integer from 0 to {}", what, most);
  }
  return value.get<std::int64_t>();
}

/// Reads a number as a float. Errors: data (the number is too large for a float).
float float_in(const std::string& name, const Json& value) {
  const double number = value.get<double>();
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) {
    fail(ExitCode::data, "the attribute '{}' is outside the range of float32", name);
  }
  return static_cast<float>(number);
}

/// Reads an integer attribute. Errors: data (the value is above max_attribute). AttributeReader checks the lower limit.
std::int64_t integer_in(const std::string& name, const Json& value) {
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{max_attribute};
  if (is_too_large) fail(ExitCode::data, "the attribute '{}' is not an integer within 2^31", name);
  return value.get<std::int64_t>();
}

Attributes::Value attribute_of(const std::string& name, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return integer_in(name, value);
  if (value.is_number_float()) return float_in(name, value);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) fail(ExitCode::data, "the attribute '{}' has no known type", name);
  if (std::ranges::all_of(value, [](const Json& element) { return element.is_number_integer(); })) {
    std::vector<std::int64_t> integers;
    for (const Json& element : value) integers.push_back(integer_in(name, element));
    return integers;
  }
  if (std::ranges::all_of(value, [](const Json& element) { return element.is_number(); })) {
    std::vector<float> numbers;
    for (const Json& element : value) numbers.push_back(float_in(name, element));
    return numbers;
  }
  fail(ExitCode::data, "the attribute '{}' is no list of numbers", name);
}

/// Returns a name that messages and files can hold. Errors: data.
std::string name_in(const Json& value, std::string_view what) {
  const std::string name = value.get<std::string>();
  check_name(name, what, ExitCode::data);
  return name;
}

OpDescription op_in(const Json& op, std::string_view network_input, std::span<const OpType* const> types) {
  OpDescription read{.name = name_in(op.at("name"), "an op"), .inputs = {}, .attributes = {}};
  const std::string type = name_in(op.at("type"), "an op type");
  const auto known = std::ranges::find(types, std::string_view(type), [](const OpType* of) { return of->name; });
  if (known == types.end()) {
    fail(ExitCode::data, "the network has an op of type {}, which this program does not have", type);
  }
  read.type = *known;
  const Json& inputs = op.at("inputs");
  if (!inputs.is_array()) fail(ExitCode::data, "the op '{}' has no list of inputs", read.name);
  for (const Json& input : inputs) read.inputs.push_back(name_in(input, "an input"));
  if (op.contains("block")) {
    read.block =
        static_cast<int>(size_in(op.at("block"), fmt::format("the block of '{}'", read.name), max_network_ops));
  }
  if (op.contains("shared")) {
    for (const auto& [own, shared] : op.at("shared").items()) {
      check_name(own, "a variable", ExitCode::data);
      read.shared.emplace(own, name_in(shared, "a shared variable"));
    }
  }
  if (op.contains("attributes")) {
    const Json& attributes = op.at("attributes");
    if (attributes.size() > max_attributes) {
      fail(ExitCode::data, "the op '{}' has more than {} attributes", read.name, max_attributes);
    }
    for (const auto& [name, value] : attributes.items()) {
      check_name(name, "an attribute", ExitCode::data);
      read.attributes.set(name, attribute_of(name, value));
    }
  }
  check_op(read, network_input, ExitCode::data);
  return read;
}

}  // namespace

NetworkDescription describe_network(const std::string& name, const ImageShape& image,
                                    const std::function<Value(Graph& graph)>& add_layers) {
  check_name(name, "a network", ExitCode::failed);
  check_image(image, ExitCode::failed);
  const GraphContext context{.image = image};
  Graph graph(1, Arithmetic::fp32, context);
  const Value output = add_layers(graph);
  NetworkDescription network{.name = name, .image = image, .ops = {}, .output = {}};
  const auto name_of = [&](int value) {
    check(value >= 0 && graph.values().at(value).producer >= 0, "no op of the network computes its output");
    return graph.values()[value].name;
  };
  check_op_count(graph.nodes().size(), ExitCode::failed);
  std::set<std::string_view> names;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.type == nullptr) {
      fail(ExitCode::failed, "the op '{}' of type {} has no OpType, which a network requires", node.name,
           node.definition->type());
    }
    if (!names.insert(node.name).second) fail(ExitCode::failed, "the network has two ops named '{}'", node.name);
    OpDescription op{.name = node.name,
                     .type = node.type,
                     .inputs = {},
                     .attributes = node.attributes,
                     .block = node.block,
                     .shared = node.shared_parameters};
    if (op.type->reads_records) op.inputs.push_back(network.input);
    for (const int input : node.inputs) op.inputs.push_back(name_of(input));
    check_op(op, network.input, ExitCode::failed);
    network.ops.push_back(std::move(op));
  }
  network.output = name_of(output.index);
  check_output(graph.shape(output), ExitCode::failed);
  // Checks that the description contains everything on which the ops depend.
  Graph rebuilt(1, Arithmetic::fp32, context);
  add_network(rebuilt, network);
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    check(rebuilt.parameters().at(i).name == graph.parameters()[i].name &&
              rebuilt.parameters()[i].shape == graph.parameters()[i].shape,
          "the network has other variables when it is built from its description");
  }
  description_text(network);  // throws if a name or a value cannot be written as text
  return network;
}

Value add_network(Graph& graph, const NetworkDescription& network) {
  check(graph.context().image == network.image, "the graph is for other images than the network");
  std::map<std::string, Value, std::less<>> values;
  for (const OpDescription& op : network.ops) {
    const std::vector<Value> outputs = add_described(graph, op, network.input, values);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::string name = output_name(op.name, i);
      if (!values.emplace(name, outputs[i]).second) fail(ExitCode::data, "the network has two ops named '{}'", name);
    }
  }
  graph.set_block(-1);
  const auto found = values.find(network.output);
  if (found == values.end()) fail(ExitCode::data, "no op computes the output '{}'", network.output);
  check_output(graph.shape(found->second), ExitCode::data);
  return found->second;
}

bool has_op(const NetworkDescription& network, const OpType& type) {
  return std::ranges::find(network.ops, &type, &OpDescription::type) != network.ops.end();
}

std::string description_text(const NetworkDescription& network) {
  const ImageShape& image = network.image;
  OrderedJson ops = OrderedJson::array();
  for (const OpDescription& op : network.ops) {
    OrderedJson& text = ops.emplace_back();
    text["name"] = op.name;
    text["type"] = op.type->name;
    text["inputs"] = op.inputs;
    if (op.block >= 0) text["block"] = op.block;
    for (const auto& [own, shared] : op.shared) text["shared"][own] = shared;
    for (const auto& [name, value] : op.attributes.values()) text["attributes"][name] = json_of(value);
  }
  OrderedJson text;
  text["name"] = network.name;
  text["inputs"] = OrderedJson::array(
      {{{"name", network.input}, {"type", "uint8"}, {"shape", {image.height, image.width, image.channels}}}});
  text["ops"] = std::move(ops);
  text["outputs"] = OrderedJson::array({network.output});
  if (!network.torch_names.empty()) text["torch_names"] = network.torch_names;
  try {
    return text.dump();
  } catch (const OrderedJson::exception& error) {
    fail(ExitCode::failed, "a name in the network is no UTF-8 text: {}", error.what());
  }
}

NetworkDescription read_description(const std::string& text, std::span<const OpType* const> types) {
  try {
    const Json json = Json::parse(text);
    const Json& input = json.at("inputs").at(0);
    const Json& shape = input.at("shape");
    if (shape.size() != 3 || json.at("inputs").size() != 1 || input.at("type") != "uint8" ||
        json.at("outputs").size() != 1) {
      fail(ExitCode::data, "the network has other inputs than one uint8 image, or several outputs");
    }
    const auto extent = [&](std::size_t axis) {
      return size_in(shape.at(axis), "an extent of the image", max_image_bytes);
    };
    NetworkDescription network{.name = name_in(json.at("name"), "the network"),
                               .input = name_in(input.at("name"), "the network's input"),
                               .image = {extent(0), extent(1), extent(2)},
                               .ops = {},
                               .output = name_in(json.at("outputs").at(0), "the output")};
    check_image(network.image, ExitCode::data);
    check_op_count(json.at("ops").size(), ExitCode::data);
    if (json.contains("torch_names")) {
      for (const auto& [own, torch] : json.at("torch_names").items()) {
        check_name(own, "a variable", ExitCode::data);
        network.torch_names.emplace(own, name_in(torch, "an array of PyTorch"));
      }
    }
    for (const Json& op : json.at("ops")) network.ops.push_back(op_in(op, network.input, types));
    return network;
  } catch (const Json::exception& error) {
    fail(ExitCode::data, "the description of the network is damaged: {}", error.what());
  }
}

}  // namespace carillon
