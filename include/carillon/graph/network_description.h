// NetworkDescription: a network as data. It can be stored, read, and built for any batch size, on any device.
//
// A description lists the ops of a network with their types and attributes. The ops determine the variables, buffers
// and shapes. An op refers to the outputs of earlier ops by their names (output_name in graph.h). The graph, not the
// description, has the seed, the augmentation and the batch size.
//
// Its JSON text, which checkpoints store:
//   {"name": "mnist",
//    "inputs": [{"name": "image", "type": "uint8", "shape": [28, 28, 1]}],            height, width, channels
//    "ops": [{"name": "input", "type": "image_input", "inputs": ["image"], "attributes": {"scale": 0.00390625}},
//            {"name": "layer1", "type": "dense", "inputs": ["input"], "attributes": {"units": 500, ...}}, ...],
//    "outputs": ["layer2"],
//    "torch_names": {"layer1/weights": "fc1.weight", ...}}                           omitted if they are unknown
// An op of a block also has the member "block": 0, 1, ... An op that shares variables has the member
// "shared": {"layer2/weights": "layer1/weights"}. Attributes that equal the default of their op type are
// omitted, so these defaults must never change.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/graph/graph.h"

namespace carillon {

/// The largest number of ops in a description. Descriptions with more ops are neither written nor read.
inline constexpr std::size_t max_network_ops = 10'000;

struct OpDescription {
  std::string name;              ///< unique in the network; its variables are `<name>/weights`, ...
  const OpType* type = nullptr;  ///< never null
  /// Names of the values that the op reads, which are outputs of earlier ops (output_name). If the op reads the records
  /// (OpType::reads_records), the first name is NetworkDescription::input.
  std::vector<std::string> inputs;
  Attributes attributes;
  int block = -1;  ///< see Graph::set_block
  /// Variables of earlier ops that the op uses instead of its own: `<name>/weights` -> name of the shared variable
  /// (Graph::share_parameter).
  std::map<std::string, std::string> shared = {};
  bool operator==(const OpDescription&) const = default;
};

struct NetworkDescription {
  std::string name;                ///< the network's name, for example "mnist"
  std::string input = "image";     ///< name of the input, the uint8 images of the records; no op has this name
  ImageShape image;                ///< shape of the input
  std::vector<OpDescription> ops;  ///< all ops in forward order
  std::string output;              ///< name of the value that is the output, [batch, outputs]
  /// Maps the name of each variable and buffer in Carillon to its name in PyTorch. Empty: the names are unknown.
  std::map<std::string, std::string> torch_names = {};
  bool operator==(const NetworkDescription&) const = default;
};

/// Describes the ops that `add_layers` adds to a graph with batch size 1. `add_layers` returns the output of the
/// network. Errors: failed (an op has no OpType; two ops have the same name; the output does not have the shape [batch,
/// outputs]; read_description would refuse a name or a size), and the errors of `add_layers`.
NetworkDescription describe_network(const std::string& name, const ImageShape& image,
                                    const std::function<Value(Graph& graph)>& add_layers);

/// Adds all ops of the network to an empty graph, and returns the output. The context of the graph must have the
/// network's image shape. Errors: data (an attribute or an input is unknown; a size exceeds 2^40 elements; the output
/// does not have the shape [batch, outputs]), and the errors of the ops.
Value add_network(Graph& graph, const NetworkDescription& network);

/// True if the network has an op of this type, for example attention_op.
bool has_op(const NetworkDescription& network, const OpType& type);

/// Returns the JSON text of the network. Errors: failed (a name is not UTF-8).
std::string description_text(const NetworkDescription& network);
/// Makes a description from its JSON text. `types`: all known op types. Errors: data (the text is not a description in
/// this format; an op type is unknown).
NetworkDescription read_description(const std::string& text, std::span<const OpType* const> types);

}  // namespace carillon
