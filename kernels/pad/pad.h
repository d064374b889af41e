// pad: adds elements before and after the elements of each axis, or removes some. slice: selects elements of one axis.
//
//   pad     y[..., i, ...] = x[..., i - before, ...] if x has this element, otherwise value    dx: the elements of dy
//   slice   y[..., i, ...] = x[..., first + i step, ...]      i = 0 ... count - 1              dx: dy, 0 between
//
// x, y: [batch, ...]. The batch keeps its extent. A negative number of elements removes elements. Sources: the
// operators Pad (constant) and Slice of ONNX.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct PadParams {
  std::vector<std::int64_t> before, after;  ///< added elements of each axis after the batch; negative: removed
  float value = 0.0f;                       ///< of the added elements

  template <typename Fields>
  void visit(Fields& fields) {
    fields("before", before);
    fields("after", after);
    fields("value", value);
  }
};

/// Errors: failed (not a number for each axis after the batch; an axis would be empty; more groups of axes than PadAxes
/// holds).
Value pad(Graph& graph, const std::string& name, Value x, const PadParams& params);
extern const OpType pad_op;

struct SliceParams {
  std::int64_t axis = -1;  ///< 1 to rank - 1; -1: the last axis
  std::int64_t first = 0, count = 1;
  std::int64_t step = 1;  ///< may be negative, not 0

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axis", axis);
    fields("first", first);
    fields("count", count);
    fields("step", step);
  }
};

/// Errors: failed (no such axis, or the batch; the axis does not have all the elements; more groups of axes than
/// PadAxes holds).
Value slice(Graph& graph, const std::string& name, Value x, const SliceParams& params);
extern const OpType slice_op;
/// The axis of `params` in a tensor of this shape. Errors: failed (no such axis, or the batch).
std::size_t slice_axis(const SliceParams& params, const Shape& x);

struct PadAxes;
/// y = the elements of x that the axes select, and `value`.
void pad_cuda(const PadAxes& axes, float value, const Tensor& x, const Tensor& y, Stream& stream);

}  // namespace carillon
