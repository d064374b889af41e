// Ops that move elements and compute nothing: reshape, transpose, pad, slice, concat and split.
//
// x, y: [batch, ...]. The batch stays the first axis, and no op moves elements between samples. Sources: the operators
// of ONNX with these names; pad is Pad (constant).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

// reshape: changes the shape of each sample.
//
//   y[b, i] = x[b, i] for the elements i of a sample, in row-major order      dx[b, i] = dy[b, i]
//
// y: [batch, extents...]. y has the memory of x, and dx the memory of dy.

struct ReshapeParams {
  std::vector<std::int64_t> extents;  ///< extents of a sample; at most one extent may be -1; it is computed from the
                                      ///< other extents

  template <typename Fields>
  void visit(Fields& fields) {
    fields("extents", extents);
  }
};

/// Errors: failed (an extent is neither positive nor -1; several extents are -1; the number of elements differs from
/// x).
Value reshape(Graph& graph, const std::string& name, Value x, const ReshapeParams& params);
extern const OpType reshape_op;

// transpose: reorders the axes of a tensor.
//
//   y[i_0, i_1, ...] = x[j_0, j_1, ...] with j_axes[k] = i_k      the extent k of y is the extent axes[k] of x
//   dx = dy, transposed by the inverse of the axes

struct TransposeParams {
  std::vector<std::int64_t> axes;  ///< contains each axis of x once; the first is 0, the batch

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axes", axes);
  }
};

/// Errors: failed (the axes are not a permutation that starts with 0; there are more groups of axes than TransposeAxes
/// holds).
Value transpose(Graph& graph, const std::string& name, Value x, const TransposeParams& params);
extern const OpType transpose_op;

// pad: adds elements before and after the elements of each axis, or removes elements. slice: selects elements of one
// axis.
//
//   pad     y[..., i, ...] = x[..., i - before, ...] if x has this element, otherwise value
//   slice   y[..., i, ...] = x[..., first + i step, ...]      i = 0 ... count - 1
//
// If `before` or `after` is negative, pad removes elements. If y contains an element of x, the gradient of this element
// is the gradient of the element in y. All other elements of dx are 0.

struct PadParams {
  std::vector<std::int64_t> before, after;  ///< number of elements that are added to each axis after the batch;
                                            ///< negative: elements are removed
  float value = 0.0f;                       ///< value of the added elements

  template <typename Fields>
  void visit(Fields& fields) {
    fields("before", before);
    fields("after", after);
    fields("value", value);
  }
};

/// Errors: failed (`before` or `after` does not have exactly one number for each axis after the batch; an axis would be
/// empty; there are more groups of axes than PadAxes holds).
Value pad(Graph& graph, const std::string& name, Value x, const PadParams& params);
extern const OpType pad_op;

struct SliceParams {
  std::int64_t axis = -1;  ///< 1 to rank - 1; -1: the last axis
  std::int64_t first = 0, count = 1;
  std::int64_t step = 1;  ///< may be negative, but not 0

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axis", axis);
    fields("first", first);
    fields("count", count);
    fields("step", step);
  }
};

/// Errors: failed (the axis does not exist or is the batch; an element is outside the axis; there are more groups of
/// axes than PadAxes holds).
Value slice(Graph& graph, const std::string& name, Value x, const SliceParams& params);
extern const OpType slice_op;
/// Returns the axis of `params` in a tensor of this shape. Errors: failed (the axis does not exist or is the batch).
std::size_t slice_axis(const SliceParams& params, const Shape& x);

// concat: joins tensors along one axis. It is the inverse of split.
//
//   y[..., offset_k + i, ...] = x_k[..., i, ...]      offset_k = the sum of the extents of x_0 ... x_(k - 1)
//   dx_k[..., i, ...] = dy[..., offset_k + i, ...]
//
// x_k: [batch, ...]. Only the extents of the joined axis may differ.

struct ConcatParams {
  std::int64_t axis = -1;  ///< 1 to rank - 1; -1: the last axis, for example the channels

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axis", axis);
  }
};

/// Errors: failed (there are no inputs; the axis does not exist or is the batch; extents of other axes differ).
Value concat(Graph& graph, const std::string& name, std::span<const Value> inputs, const ConcatParams& params = {});
extern const OpType concat_op;

// split: divides a tensor along one axis into parts. It is the inverse of concat.
//
//   y_k[..., i, ...] = x[..., offset_k + i, ...]      i = 0 ... sizes[k] - 1, offset_k = sizes[0] + ... + sizes[k - 1]
//   dx[..., offset_k + i, ...] = dy_k[..., i, ...]    0 for a part that no op reads

struct SplitParams {
  std::int64_t axis = -1;           ///< 1 to rank - 1; -1: the last axis, for example the channels
  std::vector<std::int64_t> sizes;  ///< extent of each part; the sum of these extents is the extent of x

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axis", axis);
    fields("sizes", sizes);
  }
};

/// Adds the op and returns the parts. Errors: failed (the axis does not exist or is the batch; there are no parts; a
/// size is not positive; the sum of the sizes is not the extent of x).
std::vector<Value> split(Graph& graph, const std::string& name, Value x, const SplitParams& params);
extern const OpType split_op;

/// Returns the axis of `params` in a tensor of this shape. Errors: failed (the axis does not exist or is the batch).
std::size_t split_axis(const SplitParams& params, const Shape& x);

}  // namespace carillon
