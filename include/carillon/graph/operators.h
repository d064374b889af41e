// OperatorGraph: where ops say what they compute in evaluation in the operators of ONNX, operator set 13, so that a
// network can be written in that format (src/onnx/onnx_export.h).
//
// Images, [batch, height, width, channels] here, are [batch, channels, height, width] there; all else is as it is here.
// Source: onnx.ai, "ONNX Operators".
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
  /// Adds an operator of `type`, "Conv", with one output, whose name it returns. Inputs are the names of others'
  /// outputs and of constants.
  virtual std::string add(std::string_view type, std::vector<std::string> inputs,
                          std::vector<OperatorAttribute> attributes = {}) = 0;
  /// A float32 tensor, row-major. Returns its name.
  virtual std::string constant(std::vector<std::int64_t> shape, std::vector<float> values) = 0;
  /// An int64 tensor of one extent. Returns its name.
  virtual std::string constant(std::vector<std::int64_t> values) = 0;
};

/// What an op finds there.
struct OpOperands {
  std::vector<std::string> inputs;          ///< names; of a graph's first op the images, pixels from 0 to 255
  std::vector<Tensor> parameters, buffers;  ///< values, in the host's memory
  Shape input, output;                      ///< of the first input, of the first op no extents; of the first output
};

}  // namespace carillon
