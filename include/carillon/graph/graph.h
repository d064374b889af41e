// Graph: a network as a flat list of ops in forward order, with fixed shapes, before any memory or device exists.
//
// A network's function adds ops with functions from `kernels/`, for example dense(graph, "layer1", x, {.units = 500}).
// build_network (models/network.h) then runs passes, which prepare the graph for the device, for example by fusing ops.
// A value that several ops read starts branches; an op with several inputs, such as add, joins branches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/core/tensor.h"
#include "carillon/graph/attributes.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"

namespace carillon {

/// A tensor in a graph.
struct Value {
  int index = -1;  ///< index in Graph::values(); -1: no value
  bool operator==(const Value&) const = default;
};

/// Returns the name of an output of an op. Output 0 has the name of the op, for example "split"; the next outputs are
/// "split:1", "split:2", ...
std::string output_name(const std::string& op, std::size_t output);

struct OpType;

/// Settings of a training or an evaluation that some ops read. Ops do not store these settings as attributes, so
/// trainings and evaluations can use the same description of a network.
struct GraphContext {
  ImageShape image = {};           ///< shape of the records' images
  bool training = true;            ///< false: ops draw no random numbers, and dropout adds no ops
  bool distort = false;            ///< input ops distort training images at random, if they can
  std::uint64_t record_count = 0;  ///< training set size
  std::uint64_t seed = 0;          ///< seed of the random draws of these ops
};

class Graph {
 public:
  struct ValueInfo {
    std::string name;
    Shape shape;
    DType type = DType::f32;
    int producer = -1;            ///< op index; -1: a pass removed the producer, or the value is an input
    std::vector<int> readers;     ///< ascending op indices; an op that reads the value twice is listed twice
    bool wants_gradient = false;  ///< the value depends on a parameter; after want_gradients_of: the value depends on a
                                  ///< trained parameter
    bool is_input = false;        ///< no op produces the value: the value is part of the step's inputs (StepInputs)
    /// If the value is an activation: -1. Otherwise: the index of a shared parameter. The gradient of this value is
    /// then the part of the parameter's gradient that one op computes (Graph::add_gradient_value). No op reads or
    /// writes the value itself.
    int gradient_of = -1;
  };
  struct Node {
    std::string name;
    std::shared_ptr<const OpDefinition> definition;
    std::vector<int> inputs, outputs;  ///< value indices
    std::vector<int> parameters;       ///< parameter indices
    std::vector<int> buffers;          ///< buffer indices
    /// For each parameter, the index of a value with ValueInfo::gradient_of, or -1. If there is an index, the op writes
    /// its part of the parameter's gradient to the gradient of this value. If the entry is -1, the op writes the
    /// parameter's gradient itself. If the list is empty, every entry counts as -1.
    std::vector<int> gradient_values = {};
    /// Variables of earlier ops that this op uses instead of its own: name of its own variable -> name of the shared
    /// variable (Graph::share_parameter).
    std::map<std::string, std::string> shared_parameters = {};
    OpTraits traits = {};          ///< traits of this op type
    int block = -1;                ///< see set_block
    const OpType* type = nullptr;  ///< see NewOp
    Attributes attributes = {};    ///< attributes of the op before the passes changed it
  };
  struct NewOp {
    std::string name;
    std::shared_ptr<const OpDefinition> definition;
    std::vector<Value> inputs;
    std::vector<int> parameters = {};
    std::vector<int> buffers = {};
    OpTraits traits = {};
    /// The type of the op: type->build with `attributes` adds an equal op to another graph. Null for losses and for ops
    /// that passes add, because a NetworkDescription cannot contain such ops.
    const OpType* type = nullptr;
    Attributes attributes = {};
  };

  /// `batch_size`: number of samples that the graph processes at once. This number is the first extent of every value
  /// that is not a scalar. Scalars are float32, a target has the type of its TargetSpec, and all other values have the
  /// activation type of `arithmetic`. Errors: failed (batch_size is not above 0).
  explicit Graph(std::int64_t batch_size, Arithmetic arithmetic = Arithmetic::fp32, const GraphContext& context = {});

  std::int64_t batch_size() const { return batch_size_; }
  const GraphContext& context() const { return context_; }
  Arithmetic arithmetic() const { return arithmetic_; }

  /// All ops and parameters that are added after this call belong to this block. A block is a part of the network that
  /// repeats, such as a residual block. Blocks are numbered from 0 in forward order; -1: no block. --layer-decay uses
  /// these numbers.
  void set_block(int block) { block_ = block; }
  /// Adds a parameter (in messages and checkpoints: a variable) and returns its index. Names follow TensorFlow:
  /// "layer1/weights". Errors: failed (a parameter or a buffer has this name; after share_parameter, the shapes of the
  /// two parameters differ).
  int add_parameter(ParameterSpec spec);
  /// Lets the next op share a parameter of an earlier op: when the next op calls add_parameter with the name `own`,
  /// add_parameter returns the parameter `shared`. The gradient of the parameter is then the sum of the gradients of
  /// its ops. add_parameter ignores the initial values, the L2 factor and the `trains` of the next op: the values of
  /// `shared` apply. Errors: failed (there is no parameter `shared`). add_op fails if the op adds no parameter with the
  /// name `own`.
  void share_parameter(const std::string& own, const std::string& shared);
  /// Adds a tensor that no optimiser changes, for example running statistics, and returns its index. Errors: as
  /// add_parameter.
  int add_buffer(BufferSpec spec);
  /// Adds the value "target", which no op produces. Its shape is [batch, extents of spec.shape], and its type is
  /// spec.type. CPU ops read it as an input tensor. On a GPU the tensor has no data; kernels call StepTable::target.
  /// Errors: failed (the graph already has a target).
  Value add_target(const TargetSpec& spec);
  /// Appends an op with outputs of these shapes, and returns the outputs. A parameter belongs to the first op that
  /// lists it: an op must list all parameters added since the previous add_op, in the order of add_parameter. The order
  /// matters because ParameterLayout lays gradients out in the order in which backward completes them: the last
  /// parameter first. Errors: failed (the op lists other parameters, or lists them in another order).
  std::vector<Value> add_op_with_outputs(NewOp op, std::vector<Shape> output_shapes);
  /// Does the same as add_op_with_outputs for an op with one output, and returns this output.
  Value add_op(NewOp op, Shape output_shape);

  /// Returns the bytes of one sample's target, or 0 if the graph has no target.
  std::size_t target_bytes() const { return target_bytes_; }
  /// The reference is valid until the graph gets another op or target.
  const Shape& shape(Value value) const { return values_.at(value.index).shape; }
  const std::vector<ValueInfo>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<BufferSpec>& buffers() const { return buffers_; }

  // For passes. Values keep their indices and are never removed.
  /// Adds a value with the shape and type of `value`. The pass must also add an op that produces the new value.
  Value add_value_like(Value value);
  /// Adds a value with `parameter` as its ValueInfo::gradient_of. The pass must also add an op that produces the value.
  Value add_gradient_value(int parameter);
  /// Sets the last extent of a value to `channels`.
  void set_channels(Value value, std::int64_t channels);
  /// Declares that no op changes the buffer from now on (AcrossRanks::equal).
  void keep_buffer(int buffer);
  /// Removes the L2 loss of the variable.
  void remove_l2(int parameter);
  /// Replaces all nodes; `nodes` are in forward order. Recomputes the producer and the readers of every value, and
  /// names a value after the op that produces it (output_name). Exception: an op made by OpTraits::accumulating outputs
  /// its input again, and this value keeps its name. Shapes, types and wants_gradient stay. Errors: failed (a value is
  /// read before it is produced, or produced twice).
  void replace_nodes(std::vector<Node> nodes);
  /// Recomputes ValueInfo::wants_gradient for a training that changes only some parameters. `trains`: for each
  /// parameter index, whether the training changes the parameter. Errors: failed (`trains` has the wrong length).
  void want_gradients_of(const std::vector<bool>& trains);

 private:
  /// Reserves the name for a new parameter or buffer. Errors: failed (a parameter or a buffer has this name).
  void take_name(const std::string& name);
  /// Returns the index of the parameter with this name. Errors: failed (no parameter has this name).
  int parameter_named(const std::string& name) const;
  void link();

  std::int64_t batch_size_;
  Arithmetic arithmetic_;
  GraphContext context_;
  int block_ = -1;
  std::vector<ValueInfo> values_;
  std::vector<Node> nodes_;
  std::vector<ParameterSpec> parameters_;
  std::vector<BufferSpec> buffers_;
  std::set<std::string, std::less<>> names_;  ///< names of parameters and buffers
  std::vector<int> next_parameters_;          ///< parameters that the next op must list
  /// Entries that share_parameter added for Node::shared_parameters of the next op. next_shared_: entries that
  /// add_parameter has not used yet. used_shared_: entries that it has used.
  std::map<std::string, std::string> next_shared_, used_shared_;
  bool has_target_ = false;
  std::size_t target_bytes_ = 0;
};

/// The type of an op. A NetworkDescription refers to it by name. Each op's header declares one constant, and
/// kernels/shared/op_types.h lists all constants.
struct OpType {
  static constexpr int any_inputs = -1;

  std::string_view name;       ///< "dense"
  int input_count = 1;         ///< number of values that the op reads; any_inputs: one or more
  bool reads_records = false;  ///< the op reads its inputs, and also the images of the records
  /// Adds the op and returns its outputs. Errors: data (an attribute is unknown), failed (the inputs or attributes are
  /// unsuitable).
  std::vector<Value> (*build)(Graph& graph, const std::string& name, std::span<const Value> inputs,
                              const Attributes& attributes);
};

/// Returns the outputs of an op as a list. `output`, `outputs`: the result of the function that added the op.
inline std::vector<Value> outputs_of(Value output) { return {output}; }
inline std::vector<Value> outputs_of(std::vector<Value> outputs) { return outputs; }

/// Makes the OpType of an op with one input. `builder` adds the op: builder(graph, name, x, params).
template <typename Params, auto builder>
constexpr OpType op_type(std::string_view type) {
  return {
      .name = type,
      .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
        return outputs_of(builder(graph, name, inputs[0], params_of<Params>(attributes)));
      }};
}

/// Makes the OpType of an op without attributes and with one or two inputs. `builder` adds the op: builder(graph, name,
/// a) or builder(graph, name, a, b).
template <auto builder>
constexpr OpType op_type(std::string_view type) {
  constexpr bool is_binary = std::is_invocable_v<decltype(builder), Graph&, const std::string&, Value, Value>;
  return {
      .name = type,
      .input_count = is_binary ? 2 : 1,
      .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
        AttributeReader(attributes).finish();
        if constexpr (is_binary) {
          return outputs_of(builder(graph, name, inputs[0], inputs[1]));
        } else {
          return outputs_of(builder(graph, name, inputs[0]));
        }
      }};
}

}  // namespace carillon
