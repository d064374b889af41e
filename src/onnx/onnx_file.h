// OnnxFile: reads an ONNX file: nodes in forward order, and constants with their values.
//
// Source: onnx.ai, "Open Neural Network Exchange: intermediate representation".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/onnx.pb.h"

namespace carillon {

/// A constant tensor, row-major. Booleans are the integers 0 and 1.
struct OnnxArray {
  std::vector<std::int64_t> shape;
  bool has_floats = false;  ///< true: `floats` has the values; false: `integers`
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::string name;            ///< name of the initializer; empty: the values are from a node or from shapes
  bool is_derived = false;     ///< the values were computed from the initializer and differ from it
  bool is_hollow = false;      ///< only the shape is known: the values would be too many
  bool repeats_batch = false;  ///< axis 0 is the batch, and the array has the values of one sample: shape[0] is 1

  std::int64_t element_count() const;
};
using OnnxConstant = std::shared_ptr<const OnnxArray>;

/// A node of the graph with its attributes. The functions return `other` if the node lacks the attribute. Errors: data
/// (the attribute has another type).
class OnnxNode {
 public:
  explicit OnnxNode(const onnx::Node& node) : node_(&node) {}

  std::string_view type() const { return node_->op_type(); }
  /// The node's name for messages. A node without a name has the name of its first output.
  std::string name() const;
  /// The name of an input; empty if the optional input is missing.
  std::string input(int number) const { return number < node_->input_size() ? node_->input(number) : std::string(); }
  int input_count() const { return node_->input_size(); }
  const std::string& output(int number = 0) const { return node_->output(number); }
  int output_count() const { return node_->output_size(); }

  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  std::int64_t integer(std::string_view attribute, std::int64_t other) const;
  float number(std::string_view attribute, float other) const;
  std::string text(std::string_view attribute, const std::string& other) const;
  std::vector<std::int64_t> integers(std::string_view attribute, std::vector<std::int64_t> other = {}) const;
  /// Returns null if the node lacks the attribute.
  const onnx::Tensor* tensor(std::string_view attribute) const;
  const std::vector<float> numbers(std::string_view attribute) const;

 private:
  const onnx::Attribute* find(std::string_view attribute) const;
  /// Returns null if the node lacks the attribute.
  const onnx::Attribute* find(std::string_view attribute, onnx::Attribute::Type type) const;

  const onnx::Node* node_;
};

class OnnxFile {
 public:
  /// Reads the file, and the values that the file stores in other files of the same folder. Errors: no_input, io; data
  /// (not an ONNX file; an operator set before 9; several inputs or none; arrays of wrong sizes or with non-finite
  /// values; values outside the folder; too many nodes). The message names the file.
  explicit OnnxFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t operator_set() const { return operator_set_; }
  /// Whether PyTorch exported the file.
  bool is_of_pytorch() const;
  const std::vector<OnnxNode>& nodes() const { return nodes_; }
  /// The initializers, by name.
  const std::map<std::string, OnnxConstant>& constants() const { return constants_; }
  const std::string& input() const { return input_; }
  /// The extents of the input; -1 if any extent is allowed.
  const std::vector<std::int64_t>& input_shape() const { return input_shape_; }
  /// The name of the first output.
  const std::string& output() const { return output_; }

  /// The values of a tensor. `name`: for messages. Errors: data.
  OnnxConstant read(const onnx::Tensor& tensor, const std::string& name) const;

 private:
  /// Throws an error: the file's path, then `what`.
  [[noreturn]] void refuse(const std::string& what) const;
  /// The bytes of a tensor that stores its values in another file.
  std::string external_bytes(const onnx::Tensor& tensor, const std::string& name, std::size_t bytes) const;

  std::filesystem::path path_;
  std::shared_ptr<onnx::Model> model_;
  std::int64_t operator_set_ = 0;
  std::vector<OnnxNode> nodes_;
  std::map<std::string, OnnxConstant> constants_;
  std::string input_, output_;
  std::vector<std::int64_t> input_shape_;
};

}  // namespace carillon
