// The table of op types, with the ONNX operators (operator set 17) that compute each op in evaluations.
//
// Images are [batch, height, width, channels] in Carillon and [batch, channels, height, width] in ONNX. All other
// tensors have the same layout in both. Source: onnx.ai, "ONNX Operators".
//
// export_layers.cpp exports the input op, layers and the ops of transformers. operator_table.cpp exports all other ops.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/graph/graph.h"
#include "onnx/onnx.pb.h"

namespace carillon {

using Extents = std::vector<std::int64_t>;

struct OnnxAttribute {
  std::string_view name;
  std::variant<std::int64_t, float, Extents> value;
};

/// Adds nodes and constants to an ONNX graph.
class OnnxWriter {
 public:
  explicit OnnxWriter(onnx::Graph& graph) : graph_(graph) {}

  /// Nodes and constants that are added from now on have names that start with `op`.
  void begin(const std::string& op);
  /// Adds an operator of `type`, for example "Conv", with one output. Returns the name of the output. `inputs`: names
  /// of outputs and constants.
  std::string add(std::string_view type, std::vector<std::string> inputs,
                  const std::vector<OnnxAttribute>& attributes = {});
  /// Does the same as `add` for an operator with `output_count` outputs. Returns the names of the outputs.
  std::vector<std::string> add_with_outputs(std::string_view type, std::vector<std::string> inputs,
                                            const std::vector<OnnxAttribute>& attributes, std::size_t output_count);
  /// Adds a constant float32 tensor, row-major. Returns its name.
  std::string constant(const Extents& shape, const std::vector<float>& values);
  std::string constant(const Tensor& tensor);
  /// Adds a constant int64 vector. Returns its name.
  std::string constant(const Extents& values);
  /// Adds the output `output` of the model, float32 [batch, extent]: an op of `type` that reads `from`.
  void name_output(std::string_view type, const std::string& from, const std::string& output, std::int64_t extent);
  /// Describes a float32 value [batch, extents...].
  static void describe(const std::string& name, const Extents& extents, onnx::ValueInfo& value);

 private:
  std::string next_name(std::string_view type);

  onnx::Graph& graph_;
  std::string op_;
  int count_ = 0;
};

/// An op of the exported network.
struct ExportedOp {
  const Attributes& attributes;
  std::string network_input;                ///< name of the model's input
  std::vector<std::string> inputs;          ///< names of the inputs; the input op reads images with pixels from 0 to
                                            ///< 255
  std::vector<Tensor> parameters, buffers;  ///< values, in host memory
  std::vector<Shape> input_shapes;          ///< shapes of the inputs that other ops compute
  Shape input, output;  ///< shapes of the first input (of the image, if the op reads the records) and of output 0
};

/// Adds the ONNX operators that compute the op. Returns the names of the ONNX outputs, one for each output of the op.
using WriteOperators = std::vector<std::string> (*)(OnnxWriter& writer, const ExportedOp& op);

/// Returns the function that exports ops of this type; null if ONNX cannot express the type.
WriteOperators onnx_operators(const OpType& type);

// For the functions that export ops.

struct ExportRow {
  const OpType* type;
  WriteOperators write;
};
/// The rows of the layers, in export_layers.cpp.
std::span<const ExportRow> exported_layers();

/// Converts a function that returns the name of the only output to a WriteOperators.
template <auto write>
std::vector<std::string> write_one(OnnxWriter& writer, const ExportedOp& op) {
  return {write(writer, op)};
}

inline std::string to_channels_last(OnnxWriter& writer, const std::string& x) {
  return writer.add("Transpose", {x}, {{"perm", Extents{0, 2, 3, 1}}});
}
inline std::string to_channels_first(OnnxWriter& writer, const std::string& x) {
  return writer.add("Transpose", {x}, {{"perm", Extents{0, 3, 1, 2}}});
}

}  // namespace carillon
