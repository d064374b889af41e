// Graph: a network as a flat list of ops in forward order, with all shapes fixed, before any memory or device exists.
//
// Functions of networks build it through the functions of the op folders, e.g. dense(graph, "layer1", x, {.units =
// 500}); passes (src/graph/passes.h) then make it ready to run. A value may have several readers: branches begin there,
// and end in an op with several inputs (kernels/add).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/target_spec.h"
#include "carillon/core/tensor.h"
#include "carillon/graph/buffers.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"

namespace carillon {

/// A tensor in a graph.
struct Value {
  int index = -1;
  bool operator==(const Value&) const = default;
};

class Graph {
 public:
  struct ValueInfo {
    std::string name;
    Shape shape;
    DType type = DType::f32;
    int producer = -1;            ///< op index; -1: a pass has left the value out, or it is an input
    std::vector<int> readers;     ///< op indices, growing; an op that reads the value twice stands here twice
    bool wants_gradient = false;  ///< some parameter that trains lies before it
    bool is_input = false;        ///< no op produces it: the step's inputs have it (StepInputs)
  };
  struct Node {
    std::string name;
    std::shared_ptr<const OpDefinition> definition;
    std::vector<int> inputs, outputs;  ///< value indices
    std::vector<int> parameters;       ///< parameter indices
    std::vector<int> buffers;          ///< state indices
  };
  /// An op to add, with all that it needs.
  struct NewOp {
    std::string name;
    std::shared_ptr<const OpDefinition> definition;
    std::vector<Value> inputs;
    std::vector<int> parameters = {};
    std::vector<int> buffers = {};
  };

  /// Every value's first extent is `batch_size` (samples per tower and step), but for scalars, which are float32
  /// whatever `arithmetic` makes the others.
  explicit Graph(std::int64_t batch_size, Arithmetic arithmetic = Arithmetic::fp32);

  std::int64_t batch_size() const { return batch_size_; }
  Arithmetic arithmetic() const { return arithmetic_; }

  /// Adds a trainable variable; returns its index. Names are TensorFlow's: "layer1/weights". Errors: failed (name
  /// taken, also by a state).
  int add_parameter(ParameterSpec spec);
  /// Adds a tensor that no optimiser touches, as running statistics are; returns its index. Errors: as add_parameter.
  int add_buffer(BufferSpec spec);
  /// Adds the graph's input for targets, [batch, spec.shape] of spec.type. On a CPU, ops read its tensor. On a GPU its
  /// tensor has no data, and kernels read StepTable::target. Errors: failed (there is one).
  Value add_target(const TargetSpec& spec);
  /// Appends an op with one output. A parameter belongs to one op; an op lists those that were added since the op
  /// before it, in that order, which is the reverse of that in which gradients become complete. Errors: failed
  /// otherwise.
  Value add_op(NewOp op, Shape output_shape);

  /// Bytes of one sample's target; 0: the graph has no target.
  std::size_t target_bytes() const { return target_bytes_; }
  const Shape& shape(Value value) const { return values_.at(value.index).shape; }
  const std::vector<ValueInfo>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<BufferSpec>& buffers() const { return buffers_; }

  // For passes. Values keep their indices, and none is taken away.
  /// A value like another one, not yet produced.
  Value add_value_like(Value value);
  /// Gives a value another last extent.
  void set_channels(Value value, std::int64_t channels);
  /// Puts `nodes`, in forward order, in the place of those there are. Errors: failed (a value that is read before it is
  /// produced, or produced twice).
  void replace_nodes(std::vector<Node> nodes);
  /// Says anew which values want a gradient: those behind an op with a parameter that `trains`, by index. At first all
  /// do. Errors: failed (another number of parameters).
  void want_gradients_of(const std::vector<bool>& trains);

 private:
  void check_name_is_free(const std::string& name) const;
  void link();

  std::int64_t batch_size_;
  Arithmetic arithmetic_;
  std::vector<ValueInfo> values_;
  std::vector<Node> nodes_;
  std::vector<ParameterSpec> parameters_;
  std::vector<BufferSpec> buffers_;
  int next_parameter_ = 0;  ///< the first that no op has
  bool has_target_ = false;
  std::size_t target_bytes_ = 0;
};

}  // namespace carillon
