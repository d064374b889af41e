// Constant folding: computes the nodes of an ONNX graph that have only constant inputs. Exporters write computations of
// shapes as such nodes.
//
// fold_shapes.cpp has a function for each operator that moves values or computes shapes. fold_arithmetic.cpp has a
// function for each operator that computes elements or sums. fold_layers.cpp has a function for each layer.
// fold_batch.cpp folds nodes with an output that has a row for each sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/onnx/onnx_file.h"

namespace carillon {

using Extents = std::vector<std::int64_t>;

/// Stands for the extent of the batch in the shapes that nodes compute. It is a prime number above all usual extents,
/// so multiples of the batch size can be recognised. It is small enough for exact multiples in float32, because some
/// exporters divide shapes in float32.
inline constexpr std::int64_t batch_mark = 10'007;

/// Whether a node of this type can be folded.
bool can_fold(std::string_view type);

/// Returns the output of the node. `inputs` has a null pointer for each missing optional input. Errors: data (inputs or
/// attributes that ONNX does not allow, or an output that is too large); the message names the node.
OnnxConstant fold(const OnnxNode& node, std::span<const OnnxConstant> inputs, std::int64_t operator_set,
                  const OnnxFile& file);

/// Like `fold`, but also folds nodes with arrays that have a row for each sample (fold_batch.cpp).
OnnxConstant fold_with_batch(const OnnxNode& node, std::span<const OnnxConstant> inputs, std::int64_t operator_set,
                             const OnnxFile& file);

// For the functions that fold nodes.

/// A node may compute this many elements, or four times the elements of its largest input if that is more.
inline constexpr std::int64_t max_folded = std::int64_t{1} << 22;
inline constexpr std::size_t max_axes = 12;

/// The argument of a function that folds a node.
struct Folded {
  const OnnxNode& node;
  std::span<const OnnxConstant> inputs;
  std::int64_t operator_set;
  const OnnxFile& file;

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ExitCode::data, "{}: the node '{}' ({}) {}", file.path().string(), printable(node.name()), node.type(), what);
  }
  bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const OnnxArray& input(std::size_t i) const {
    if (!has(i)) refuse("lacks an input");
    return *inputs[i];
  }
  /// The integers of input `i`, or of `attribute` if the input is missing, because earlier operator sets have the
  /// attribute instead. Returns nullopt if the node has neither the input nor the attribute.
  std::optional<Extents> integers(std::size_t i, std::string_view attribute) const {
    if (has(i)) return integers_of(i);
    return node.has(attribute) ? std::optional(node.integers(attribute)) : std::nullopt;
  }
  const Extents& integers_of(std::size_t i) const {
    if (input(i).has_floats) refuse("needs integers");
    return input(i).integers;
  }
  /// Returns the integer of input `i`. Refuses the node if the input does not have exactly one integer.
  std::int64_t integer(std::size_t i) const {
    if (integers_of(i).size() != 1) refuse("needs one number");
    return integers_of(i)[0];
  }
  /// Converts an axis that may be negative to an axis from 0 to rank - 1.
  std::size_t axis(std::int64_t axis, std::size_t rank) const {
    const auto count = static_cast<std::int64_t>(rank);
    if (axis < -count || axis >= count) refuse("has an axis that its input lacks");
    return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
  }
  /// Whether folding refuses a constant of this shape. An extent of 0 counts as 1: a product of 0 would hide that the
  /// other extents are too large.
  bool is_too_large(const Extents& shape) const {
    std::int64_t product = 1, limit = max_folded;
    for (const OnnxConstant& one : inputs) limit = std::max(limit, one ? 4 * one->element_count() : 0);
    for (const std::int64_t extent : shape) {
      if (__builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product) || product > limit) return true;
    }
    return shape.size() > max_axes;
  }
  std::int64_t count(const Extents& shape) const {
    if (is_too_large(shape) || std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; }))
      refuse("computes a constant that is too large, or has a negative extent");
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
};

/// An operator and the function that computes it.
struct Folding {
  std::string_view type;
  OnnxArray (*fold)(const Folded&);
};
std::span<const Folding> arithmetic_foldings();
std::span<const Folding> layer_foldings();

OnnxArray integer_array(Extents shape, Extents values);
/// Returns an array of the type of `like`. Element i of the result is element places[i] of `like`.
OnnxArray gathered(const OnnxArray& like, Extents shape, const std::vector<std::int64_t>& places);
/// The shape of the output of an Unsqueeze.
Extents unsqueezed_shape(const Folded& f);
/// Row-major strides.
Extents strides_of(const Extents& shape);
/// The shape to which both shapes broadcast.
Extents broadcast_shape_of(const Folded& f, const Extents& a, const Extents& b);
/// Broadcasts the array to the shape.
OnnxArray expanded(const Folded& f, const OnnxArray& array, const Extents& shape);
/// Returns a * b. Errors: data (the product is too large).
std::int64_t product(const Folded& f, std::int64_t a, std::int64_t b);

/// Calls visit(indices) for each element of the shape in row-major order.
template <typename Visit>
void for_each_index(const Extents& shape, const Visit& visit) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  Extents index(shape.size(), 0);
  while (true) {
    visit(index);
    std::size_t axis = shape.size();
    while (axis-- > 0) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (shape.empty()) return;
  }
}

}  // namespace carillon
