#include "src/onnx/onnx.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "carillon/core/error.h"
#include "src/onnx/operator_table.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "ONNX's raw data is little-endian; values are written without conversion");

constexpr std::int64_t ir_version = 8, operator_set = 17;

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

/// Adds the outputs of the model. `input`: name of the network's input. `output`: name of the network's output, which
/// has `count` elements per sample.
void add_outputs(const OnnxTarget& target, const std::string& input, const std::string& output, std::int64_t count,
                 OnnxWriter& writer) {
  check(target.scales.empty() || static_cast<std::int64_t>(target.scales.size()) == count,
        "the network has another number of outputs than numbers");
  if (target.kind != TargetKind::numbers) {
    writer.name_output("Identity", output, "logits", count);
    const bool has_labels = target.kind == TargetKind::labels;
    return writer.name_output(has_labels ? "Sigmoid" : "Softmax", output, "probabilities", count);
  }
  std::vector<float> means, deviations;
  for (const NumberScale& scale : target.scales) {
    means.push_back(static_cast<float>(scale.mean));
    deviations.push_back(static_cast<float>(scale.deviation));
  }
  std::string numbers = output;
  if (!target.scales.empty()) {
    writer.begin(input);  // no op has the name of the input
    numbers = writer.add("Mul", {numbers, writer.constant({count}, deviations)});
    numbers = writer.add("Add", {numbers, writer.constant({count}, means)});
  }
  writer.name_output("Identity", numbers, "numbers", count);
}

std::string bytes_of(const onnx::Model& model) {
  constexpr std::size_t limit = std::size_t{2} << 30;  // protobuf's limit
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
  for (const std::string_view output : {"logits", "probabilities", "numbers"}) {
    if (network.input == output)
      fail(ExitCode::usage, "its input '{}' has the name of an output of ONNX models", output);
  }
  OnnxWriter::describe(network.input, {image.channels, image.height, image.width}, *graph.add_input());

  Graph ops(1, Arithmetic::fp32, {.image = image, .training = false});
  const Value network_output = add_network(ops, network);
  OnnxWriter writer(graph);
  std::vector<std::string> names(ops.values().size());  // names of the values, by value index
  for (const Graph::Node& node : ops.nodes()) {
    const bool reads_records = node.type->reads_records;
    ExportedOp op{.attributes = node.attributes,
                  .network_input = network.input,
                  .inputs = {},
                  .parameters = {},
                  .buffers = {},
                  .input_shapes = {},
                  .input = {1, image.height, image.width, image.channels},
                  .output = ops.values()[node.outputs.front()].shape};
    if (reads_records) op.inputs.push_back(network.input);
    for (const int value : node.inputs) {
      op.inputs.push_back(names.at(value));
      op.input_shapes.push_back(ops.values()[value].shape);
    }
    if (!reads_records && !node.inputs.empty()) op.input = op.input_shapes.front();
    for (const int parameter : node.parameters) {
      const ParameterSpec& spec = ops.parameters()[parameter];
      op.parameters.push_back(tensor_of(variables, spec.name, spec.shape));
    }
    for (const int state : node.buffers) {
      const BufferSpec& spec = ops.buffers()[state];
      op.buffers.push_back(tensor_of(buffers, spec.name, spec.shape));
    }
    const WriteOperators write = onnx_operators(*node.type);
    if (write == nullptr) fail(ExitCode::failed, "the op type {} has no ONNX form", node.type->name);
    writer.begin(node.name);
    const std::vector<std::string> outputs = write(writer, op);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) names.at(node.outputs[i]) = outputs.at(i);
  }
  add_outputs(target, network.input, names.at(network_output.index), ops.shape(network_output)[1], writer);
  return bytes_of(model);
}

void OnnxWriter::begin(const std::string& op) {
  op_ = op;
  count_ = 0;
}

std::string OnnxWriter::next_name(std::string_view type) { return fmt::format("{}/{}{}", op_, type, count_++); }

std::string OnnxWriter::add(std::string_view type, std::vector<std::string> inputs,
                            const std::vector<OnnxAttribute>& attributes) {
  return add_with_outputs(type, std::move(inputs), attributes, 1).front();
}

std::vector<std::string> OnnxWriter::add_with_outputs(std::string_view type, std::vector<std::string> inputs,
                                                      const std::vector<OnnxAttribute>& attributes,
                                                      std::size_t output_count) {
  const std::string name = next_name(type);
  onnx::Node& node = *graph_.add_node();
  node.set_name(name);
  node.set_op_type(std::string(type));
  for (std::string& input : inputs) node.add_input(std::move(input));
  for (std::size_t i = 0; i < output_count; ++i) node.add_output(output_name(name, i));
  for (const OnnxAttribute& attribute : attributes) {
    onnx::Attribute& written = *node.add_attribute();
    written.set_name(std::string(attribute.name));
    if (const auto* const integer = std::get_if<std::int64_t>(&attribute.value)) {
      written.set_type(onnx::Attribute::INT);
      written.set_i(*integer);
    } else if (const auto* const number = std::get_if<float>(&attribute.value)) {
      written.set_type(onnx::Attribute::FLOAT);
      written.set_f(*number);
    } else {
      written.set_type(onnx::Attribute::INTS);
      for (const std::int64_t extent : std::get<Extents>(attribute.value)) written.add_ints(extent);
    }
  }
  return {node.output().begin(), node.output().end()};
}

std::string OnnxWriter::constant(const Extents& shape, const std::vector<float>& values) {
  onnx::Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(next_name("constant"));
  tensor.set_data_type(onnx::Tensor::FLOAT);
  for (const std::int64_t extent : shape) tensor.add_dims(extent);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return tensor.name();
}

std::string OnnxWriter::constant(const Tensor& tensor) {
  const std::span<const float> values = tensor.floats();
  return constant(tensor.shape.extents(), std::vector<float>(values.begin(), values.end()));
}

std::string OnnxWriter::constant(const Extents& values) {
  onnx::Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(next_name("constant"));
  tensor.set_data_type(onnx::Tensor::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
  return tensor.name();
}

void OnnxWriter::name_output(std::string_view type, const std::string& from, const std::string& output,
                             std::int64_t extent) {
  onnx::Node& node = *graph_.add_node();
  node.set_name(output);
  node.set_op_type(std::string(type));
  node.add_input(from);
  node.add_output(output);
  describe(output, {extent}, *graph_.add_output());
}

void OnnxWriter::describe(const std::string& name, const Extents& extents, onnx::ValueInfo& value) {
  value.set_name(name);
  onnx::TensorType& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::Tensor::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  for (const std::int64_t extent : extents) type.mutable_shape()->add_dim()->set_dim_value(extent);
}

}  // namespace carillon
