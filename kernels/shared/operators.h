// What ops have in common where they say what they compute in ONNX's operators (graph/operators.h).
#pragma once

#include <numbers>

#include "carillon/graph/operators.h"
#include "kernels/activation/activation.h"
#include "kernels/shared/window.h"

namespace carillon {

inline std::string constant_of(OperatorGraph& operators, const Tensor& tensor) {
  const std::span<const float> values = tensor.floats();
  return operators.constant(tensor.shape.extents(), {values.begin(), values.end()});
}

/// Of Conv, MaxPool and AveragePool.
inline std::vector<OperatorAttribute> window_attributes(const SlidingWindow& rows, const SlidingWindow& columns) {
  using Extents = std::vector<std::int64_t>;
  return {{"kernel_shape", Extents{rows.window, columns.window}},
          {"strides", Extents{rows.stride, columns.stride}},
          {"pads", Extents{rows.before, columns.before, rows.after, columns.after}}};
}

inline std::string activated(OperatorGraph& operators, ActivationKind kind, const std::string& x) {
  if (kind == ActivationKind::relu) return operators.add("Relu", {x});
  if (kind == ActivationKind::silu) return operators.add("Mul", {x, operators.add("Sigmoid", {x})});
  if (kind == ActivationKind::none) return x;
  const auto constant = [&](float value) { return operators.constant({}, {value}); };
  const std::string scaled = operators.add("Mul", {x, constant(static_cast<float>(1.0 / std::numbers::sqrt2))});
  const std::string twice = operators.add("Add", {operators.add("Erf", {scaled}), constant(1.0f)});
  return operators.add("Mul", {operators.add("Mul", {x, constant(0.5f)}), twice});
}

}  // namespace carillon
