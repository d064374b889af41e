// Constant folding: computes the nodes of an ONNX graph whose inputs are constants. Exporters write the arithmetic of
// shapes as such nodes.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "src/onnx/onnx_file.h"

namespace carillon {

/// The extent of the batch in the shapes that nodes compute. It is a prime number above all usual extents, so multiples
/// of the batch can be recognised. Its multiples are exact in float32, because exporters also divide shapes as numbers.
inline constexpr std::int64_t batch_mark = 10'007;

/// Whether a node of this type can be folded.
bool can_fold(std::string_view type);

/// The output of the node. `inputs`: a null pointer for a missing optional input. Errors: data (inputs or attributes
/// that ONNX does not allow, or an output that is too large); the message names the node.
OnnxConstant fold(const OnnxNode& node, std::span<const OnnxConstant> inputs, std::int64_t operator_set,
                  const OnnxFile& file);

}  // namespace carillon
