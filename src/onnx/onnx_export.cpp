#include "src/onnx/onnx_export.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "carillon/core/error.h"
#include "onnx/onnx.pb.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "ONNX's raw data is little-endian; values are written without conversion");

constexpr std::int64_t ir_version = 8, operator_set = 17;

class OnnxGraph final : public OperatorGraph {
 public:
  explicit OnnxGraph(onnx::Graph& graph) : graph_(graph) {}

  /// Nodes and constants that are added from now on have names that start with `op`.
  void begin(const std::string& op) {
    op_ = op;
    count_ = 0;
  }

  std::string add(std::string_view type, std::vector<std::string> inputs,
                  std::vector<OperatorAttribute> attributes) override {
    const std::string name = next_name(type);
    onnx::Node& node = *graph_.add_node();
    node.set_name(name);
    node.set_op_type(std::string(type));
    for (std::string& input : inputs) node.add_input(std::move(input));
    node.add_output(name);
    for (const OperatorAttribute& attribute : attributes) write(attribute, *node.add_attribute());
    return name;
  }
  std::string constant(std::vector<std::int64_t> shape, std::vector<float> values) override {
    return constant(shape, values, onnx::Tensor::FLOAT);
  }
  std::string constant(std::vector<std::int64_t> values) override {
    return constant({static_cast<std::int64_t>(values.size())}, values, onnx::Tensor::INT64);
  }

  /// Adds the output `output` of the model: an op of `type` that reads `from`.
  void name_output(std::string_view type, const std::string& from, const std::string& output, std::int64_t extent) {
    onnx::Node& node = *graph_.add_node();
    node.set_name(output);
    node.set_op_type(std::string(type));
    node.add_input(from);
    node.add_output(output);
    describe(output, {extent}, *graph_.add_output());
  }
  /// Describes a float32 value [batch, extents...].
  static void describe(const std::string& name, const std::vector<std::int64_t>& extents, onnx::ValueInfo& value) {
    value.set_name(name);
    onnx::TensorType& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::Tensor::FLOAT);
    type.mutable_shape()->add_dim()->set_dim_param("batch");
    for (const std::int64_t extent : extents) type.mutable_shape()->add_dim()->set_dim_value(extent);
  }

 private:
  std::string next_name(std::string_view type) { return fmt::format("{}/{}{}", op_, type, count_++); }

  template <typename T>
  std::string constant(const std::vector<std::int64_t>& shape, const std::vector<T>& values,
                       onnx::Tensor::DataType type) {
    onnx::Tensor& tensor = *graph_.add_initializer();
    tensor.set_name(next_name("constant"));
    tensor.set_data_type(type);
    for (const std::int64_t extent : shape) tensor.add_dims(extent);
    tensor.set_raw_data(values.data(), values.size() * sizeof(T));
    return tensor.name();
  }

  static void write(const OperatorAttribute& from, onnx::Attribute& to) {
    to.set_name(std::string(from.name));
    if (const auto* const integer = std::get_if<std::int64_t>(&from.value)) {
      to.set_type(onnx::Attribute::INT);
      to.set_i(*integer);
    } else if (const auto* const number = std::get_if<float>(&from.value)) {
      to.set_type(onnx::Attribute::FLOAT);
      to.set_f(*number);
    } else {
      to.set_type(onnx::Attribute::INTS);
      for (const std::int64_t i : std::get<std::vector<std::int64_t>>(from.value)) to.add_ints(i);
    }
  }

  onnx::Graph& graph_;
  std::string op_;
  int count_ = 0;
};

/// Returns the array `name` as a read-only tensor.
Tensor tensor_of(std::span<const NamedArray> arrays, const std::string& name, const Shape& shape) {
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found == arrays.end()) fail(ExitCode::data, "the array '{}' of the network is missing", name);
  if (found->shape != shape.extents()) {
    fail(ExitCode::data, "the array '{}' has the shape {}; the network requires {}", name, Shape(found->shape).text(),
         shape.text());
  }
  if (!std::ranges::all_of(found->values, [](float value) { return std::isfinite(value); })) {
    fail(ExitCode::data, "the array '{}' has values that are not finite", name);
  }
  return {.data = const_cast<float*>(found->values.data()), .shape = shape};
}

/// Adds the outputs of the model. `output`: the network's, `count` elements per sample.
void add_outputs(const OnnxTarget& target, const std::string& output, std::int64_t count, OnnxGraph& operators) {
  if (target.kind != TargetKind::numbers) {
    operators.name_output("Identity", output, "logits", count);
    const bool has_labels = target.kind == TargetKind::labels;
    return operators.name_output(has_labels ? "Sigmoid" : "Softmax", output, "probabilities", count);
  }
  std::vector<float> means, deviations;
  for (const NumberScale& scale : target.scales) {
    means.push_back(static_cast<float>(scale.mean));
    deviations.push_back(static_cast<float>(scale.deviation));
  }
  std::string numbers = output;
  if (!target.scales.empty()) {
    operators.begin("numbers");
    numbers = operators.add("Mul", {numbers, operators.constant({count}, std::move(deviations))}, {});
    numbers = operators.add("Add", {numbers, operators.constant({count}, std::move(means))}, {});
  }
  operators.name_output("Identity", numbers, "numbers", count);
}

std::string bytes_of(const onnx::Model& model) {
  constexpr std::size_t limit = std::size_t{2} << 30;  // of protobuf
  if (model.ByteSizeLong() >= limit) fail(ExitCode::failed, "the model has 2 GiB or more, which ONNX does not support");
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  check(model.SerializeToCodedStream(&coded), "cannot serialise the ONNX model");
  coded.Trim();
  return bytes;
}

}  // namespace

std::string onnx_model(const Network& network, const OnnxTarget& target, std::span<const NamedArray> variables,
                       std::span<const NamedArray> buffers, const std::map<std::string, std::string>& metadata) {
  onnx::Model model;
  model.set_ir_version(ir_version);
  model.set_producer_name("Carillon");
  model.add_opset_import()->set_version(operator_set);
  for (const auto& [key, value] : metadata) {
    onnx::StringEntry& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  onnx::Graph& graph = *model.mutable_graph();
  graph.set_name(network.name);
  const ImageShape& image = network.image;
  OnnxGraph::describe("image", {image.channels, image.height, image.width}, *graph.add_input());

  const BuiltNetwork built = build_network(network, {.purpose = Purpose::evaluation});
  const Graph& ops = built.graph;
  OnnxGraph operators(graph);
  std::vector<std::string> names(ops.values().size());  // by index of the value
  for (const Graph::Node& node : ops.nodes()) {
    OpOperands operands;
    for (const int value : node.inputs) operands.inputs.push_back(names.at(value));
    if (node.inputs.empty()) operands.inputs.emplace_back("image");
    for (const int parameter : node.parameters) {
      const ParameterSpec& spec = ops.parameters()[parameter];
      operands.parameters.push_back(tensor_of(variables, spec.name, spec.shape));
    }
    for (const int state : node.buffers) {
      const BufferSpec& spec = ops.buffers()[state];
      operands.buffers.push_back(tensor_of(buffers, spec.name, spec.shape));
    }
    if (!node.inputs.empty()) operands.input = ops.values()[node.inputs.front()].shape;
    operands.output = ops.values()[node.outputs.front()].shape;
    operators.begin(node.name);
    if (node.traits.to_onnx == nullptr) {
      fail(ExitCode::failed, "the op {} has no ONNX form", node.definition->type());
    }
    const std::string output = node.traits.to_onnx(*node.definition, operators, operands);
    for (const int value : node.outputs) names.at(value) = output;
  }
  add_outputs(target, names.at(built.output.index), ops.shape(built.output)[1], operators);
  return bytes_of(model);
}

}  // namespace carillon
