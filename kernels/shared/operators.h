// Helpers of the ops' OpTraits::to_onnx.
#pragma once

#include "carillon/graph/operators.h"
#include "kernels/shared/window.h"

namespace carillon {

inline std::string constant_of(OperatorGraph& operators, const Tensor& tensor) {
  const std::span<const float> values = tensor.floats();
  return operators.constant(tensor.shape.extents(), {values.begin(), values.end()});
}

/// The window attributes of Conv, MaxPool and AveragePool.
inline std::vector<OperatorAttribute> window_attributes(const SlidingWindow& rows, const SlidingWindow& columns) {
  using Extents = std::vector<std::int64_t>;
  return {{"kernel_shape", Extents{rows.window, columns.window}},
          {"strides", Extents{rows.stride, columns.stride}},
          {"pads", Extents{rows.before, columns.before, rows.after, columns.after}}};
}

}  // namespace carillon
