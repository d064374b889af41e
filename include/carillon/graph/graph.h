// Graph: a model as a flat list of ops in forward order, with all shapes fixed, before any memory or device exists.
//
// Model functions build it through the functions of the op folders, e.g. dense(graph, "layer1", x, {.units = 500}).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"

namespace carillon {

/// A tensor in a graph.
struct Value {
  int index = -1;
};

class Graph {
 public:
  struct ValueInfo {
    std::string name;
    Shape shape;
    DType type = DType::f32;
    int producer = -1;            ///< op index
    int consumer = -1;            ///< op index, -1: a result of the graph
    bool wants_gradient = false;  ///< some parameter lies before it
  };
  struct Node {
    std::string name;
    std::shared_ptr<const OpDefinition> definition;
    std::vector<int> inputs, outputs;  ///< value indices
    std::vector<int> parameters;       ///< parameter indices
  };

  /// Every value's first extent is `batch_size` (samples per tower and step), but for scalars, which are float32
  /// whatever the type of the others, `activations` (Device::activation_type).
  explicit Graph(std::int64_t batch_size, DType activations = DType::f32);

  std::int64_t batch_size() const { return batch_size_; }

  /// Adds a trainable variable; returns its index. Names are TensorFlow's: "layer1/weights". Errors: failed (name
  /// taken).
  int add_parameter(ParameterSpec spec);

  /// Appends an op with one output. Errors: failed (an input that another op consumes already: graphs are trees).
  Value add_op(std::string name, std::shared_ptr<const OpDefinition> definition, const std::vector<Value>& inputs,
               std::vector<int> parameters, Shape output_shape);

  const Shape& shape(Value value) const { return values_.at(value.index).shape; }
  const std::vector<ValueInfo>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }

 private:
  std::int64_t batch_size_;
  DType activations_;
  std::vector<ValueInfo> values_;
  std::vector<Node> nodes_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace carillon
