#include "carillon/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"

namespace carillon {

std::string output_name(const std::string& op, std::size_t output) {
  return output == 0 ? op : fmt::format("{}:{}", op, output);
}

Graph::Graph(std::int64_t batch_size, Arithmetic arithmetic, const GraphContext& context)
    : batch_size_(batch_size), arithmetic_(arithmetic), context_(context) {
  check(batch_size > 0, "a graph requires a batch size above 0");
}

void Graph::take_name(const std::string& name) {
  if (!names_.insert(name).second) fail(ExitCode::failed, "the network has two variables named '{}'", name);
}

int Graph::add_parameter(ParameterSpec spec) {
  take_name(spec.name);
  int index = static_cast<int>(parameters_.size());
  if (auto shared = next_shared_.extract(spec.name)) {
    index = parameter_named(shared.mapped());
    const ParameterSpec& other = parameters_[static_cast<std::size_t>(index)];
    if (spec.shape != other.shape) {
      fail(ExitCode::failed, "the variable '{}' of shape {} cannot be '{}' of shape {}", spec.name, spec.shape.text(),
           other.name, other.shape.text());
    }
    used_shared_.insert(std::move(shared));
  } else {
    spec.block = block_;
    parameters_.push_back(std::move(spec));
  }
  next_parameters_.push_back(index);
  return index;
}

int Graph::parameter_named(const std::string& name) const {
  const auto found = std::ranges::find(parameters_, name, &ParameterSpec::name);
  if (found == parameters_.end())
    fail(ExitCode::failed, "no earlier op has the variable '{}', which was to be shared", name);
  return static_cast<int>(found - parameters_.begin());
}

void Graph::share_parameter(const std::string& own, const std::string& shared) {
  parameter_named(shared);
  next_shared_.emplace(own, shared);
}

int Graph::add_buffer(BufferSpec spec) {
  take_name(spec.name);
  buffers_.push_back(std::move(spec));
  return static_cast<int>(buffers_.size()) - 1;
}

Value Graph::add_target(const TargetSpec& spec) {
  check(!has_target_, "a graph has one target");
  has_target_ = true;
  target_bytes_ = spec.bytes();
  std::vector<std::int64_t> extents = spec.shape.extents();
  extents.insert(extents.begin(), batch_size_);
  values_.push_back({.name = "target",
                     .shape = Shape(std::move(extents)),
                     .type = spec.type,
                     .producer = -1,
                     .readers = {},
                     .wants_gradient = false,
                     .is_input = true});
  return {static_cast<int>(values_.size()) - 1};
}

Value Graph::add_op(NewOp op, Shape output_shape) {
  return add_op_with_outputs(std::move(op), {std::move(output_shape)}).front();
}

std::vector<Value> Graph::add_op_with_outputs(NewOp op, std::vector<Shape> output_shapes) {
  const int index = static_cast<int>(nodes_.size());
  const auto [listed, expected] = std::ranges::mismatch(op.parameters, next_parameters_);
  if (listed != op.parameters.end()) {
    fail(ExitCode::failed, "op '{}' lists its variables in another order than they were added", op.name);
  }
  if (expected != next_parameters_.end()) {
    fail(ExitCode::failed, "op '{}' does not list the variable '{}', which was added before it", op.name,
         parameters_[*expected].name);
  }
  if (!next_shared_.empty()) {
    fail(ExitCode::failed, "op '{}' has no variable '{}', which was to be shared", op.name,
         next_shared_.begin()->first);
  }
  next_parameters_.clear();
  Node node{.name = std::move(op.name),
            .definition = std::move(op.definition),
            .inputs = {},
            .outputs = {},
            .parameters = std::move(op.parameters),
            .buffers = std::move(op.buffers),
            .gradient_values = {},
            .shared_parameters = std::exchange(used_shared_, {}),
            .traits = op.traits,
            .block = block_,
            .type = op.type,
            .attributes = std::move(op.attributes)};
  bool wants_gradient = !node.parameters.empty();
  for (const Value input : op.inputs) {
    ValueInfo& info = values_.at(input.index);
    info.readers.push_back(index);
    wants_gradient = wants_gradient || info.wants_gradient;
    node.inputs.push_back(input.index);
  }
  std::vector<Value> outputs;
  for (Shape& shape : output_shapes) {
    const DType type = shape.rank() == 0 ? DType::f32 : activation_type(arithmetic_);
    outputs.push_back({static_cast<int>(values_.size())});
    values_.push_back({.name = output_name(node.name, node.outputs.size()),
                       .shape = std::move(shape),
                       .type = type,
                       .producer = index,
                       .readers = {},
                       .wants_gradient = wants_gradient});
    node.outputs.push_back(outputs.back().index);
  }
  nodes_.push_back(std::move(node));
  return outputs;
}

Value Graph::add_value_like(Value value) {
  ValueInfo info = values_.at(value.index);
  info.producer = -1;
  info.readers.clear();
  values_.push_back(std::move(info));
  return {static_cast<int>(values_.size()) - 1};
}

Value Graph::add_gradient_value(int parameter) {
  values_.push_back({.name = {},
                     .shape = parameters_.at(parameter).shape,
                     .producer = -1,
                     .readers = {},
                     .wants_gradient = true,
                     .gradient_of = parameter});
  return {static_cast<int>(values_.size()) - 1};
}

void Graph::set_channels(Value value, std::int64_t channels) {
  Shape& shape = values_.at(value.index).shape;
  std::vector<std::int64_t> extents = shape.extents();
  extents.back() = channels;
  shape = Shape(std::move(extents));
}

void Graph::keep_buffer(int buffer) { buffers_.at(buffer).across_ranks = AcrossRanks::equal; }

void Graph::remove_l2(int parameter) { parameters_.at(parameter).l2_factor = 0.0f; }

void Graph::replace_nodes(std::vector<Node> nodes) {
  nodes_ = std::move(nodes);
  link();
}

void Graph::want_gradients_of(const std::vector<bool>& trains) {
  check(trains.size() == parameters_.size(), "want_gradients_of requires one value per parameter");
  for (const Node& node : nodes_) {
    const auto wants = [&](int input) { return values_.at(input).wants_gradient; };
    const bool any = std::ranges::any_of(node.parameters, [&](int parameter) { return trains[parameter]; }) ||
                     std::ranges::any_of(node.inputs, wants);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::optional<int> input = node.definition->output_shares_input(static_cast<int>(i));
      values_.at(node.outputs[i]).wants_gradient = input ? wants(node.inputs.at(*input)) : any;
    }
  }
}

void Graph::link() {
  for (ValueInfo& value : values_) {
    value.producer = -1;
    value.readers.clear();
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto add_reader = [&](int index) {
      ValueInfo& value = values_.at(index);
      if (value.producer < 0 && !value.is_input) {
        fail(ExitCode::failed, "op '{}' reads '{}' before it is produced", node.name, value.name);
      }
      value.readers.push_back(static_cast<int>(i));
    };
    for (const int input : node.inputs) add_reader(input);
    for (const int value : node.gradient_values) {
      if (value >= 0) add_reader(value);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      ValueInfo& value = values_.at(node.outputs[k]);
      if (value.producer >= 0) fail(ExitCode::failed, "two ops produce '{}'", value.name);
      value.producer = static_cast<int>(i);
      // The last output of an accumulating op is its input, so the value keeps its name. Output 0 of a fork also shares
      // memory with its input, but gets the name of the fork.
      const OpDefinition& op = *node.definition;
      const std::optional<int> input =
          op.output_shares_input(0) ? std::nullopt : op.output_shares_input(static_cast<int>(k));
      value.name = input ? values_.at(node.inputs.at(*input)).name : output_name(node.name, k);
    }
  }
}

}  // namespace carillon
