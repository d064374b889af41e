// OperatorGraph: ops describe their evaluation in ONNX operators (operator set 17), so that a network can be exported.
//
// Images, which are [batch, height, width, channels] in Carillon, are [batch, channels, height, width] in ONNX. All
// other tensors have the same layout. Source: onnx.ai, "ONNX Operators".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "carillon/core/tensor.h"

namespace carillon {

struct OperatorAttribute {
  std::string_view name;
  std::variant<std::int64_t, float, std::vector<std::int64_t>> value;
};

class OperatorGraph {
 public:
  virtual ~OperatorGraph() = default;
  /// Adds an operator of `type`, for example "Conv", with one output. Returns the name of the output. `inputs`: names
  /// of outputs and constants.
  virtual std::string add(std::string_view type, std::vector<std::string> inputs,
                          std::vector<OperatorAttribute> attributes = {}) = 0;
  /// Adds a float32 tensor, row-major. Returns its name.
  virtual std::string constant(std::vector<std::int64_t> shape, std::vector<float> values) = 0;
  /// Adds an int64 tensor of one extent. Returns its name.
  virtual std::string constant(std::vector<std::int64_t> values) = 0;
};

/// The operands of an op in the exported graph.
struct OpOperands {
  std::vector<std::string> inputs;          ///< names; the first op of a graph gets the images, pixels from 0 to 255
  std::vector<Tensor> parameters, buffers;  ///< values, in host memory
  Shape input, output;                      ///< of the first input (no extents for the first op) and the first output
};

}  // namespace carillon
