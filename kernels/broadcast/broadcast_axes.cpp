#include "kernels/broadcast/broadcast_axes.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "carillon/core/error.h"

namespace carillon {
namespace {

[[noreturn]] void refuse(const Shape& a, const Shape& b) {
  fail(ExitCode::failed, "the shapes {} and {} cannot be broadcast", a.text(), b.text());
}

/// The extent of the axis that is `from_end` axes before the last one; 1 before the first axis of the sample.
std::int64_t extent_of(const Shape& shape, std::size_t from_end) {
  return from_end + 1 < shape.rank() ? shape[shape.rank() - 1 - from_end] : 1;
}

bool continues(std::int64_t outer, std::int64_t inner, std::int64_t extent) { return outer == inner * extent; }

void append(BroadcastAxes& axes, const BroadcastAxis& axis) {
  if (axes.count == BroadcastAxes::max_count) {
    fail(ExitCode::failed, "tensors with more than {} groups of axes cannot be broadcast", BroadcastAxes::max_count);
  }
  axes.at[axes.count++] = axis;
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0 || a[0] != b[0]) refuse(a, b);
  const std::size_t axes = std::max(a.rank(), b.rank()) - 1;
  std::vector<std::int64_t> extents{a[0]};
  for (std::size_t i = axes; i-- > 0;) {
    const std::int64_t of_a = extent_of(a, i), of_b = extent_of(b, i);
    if (of_a != of_b && of_a != 1 && of_b != 1) refuse(a, b);
    extents.push_back(of_a == 1 ? of_b : of_a);
  }
  return Shape(std::move(extents));
}

BroadcastAxes broadcast_axes(const Shape& a, const Shape& b) {
  const Shape y = broadcast_shape(a, b);
  std::vector<BroadcastAxis> found;  // innermost first
  BroadcastAxis stride{.y = 1, .a = 1, .b = 1};
  for (std::size_t i = 0; i + 1 < y.rank(); ++i) {
    const std::int64_t extent = extent_of(y, i), of_a = extent_of(a, i), of_b = extent_of(b, i);
    if (extent == 1) continue;
    const BroadcastAxis axis{
        .extent = extent, .y = stride.y, .a = of_a == 1 ? 0 : stride.a, .b = of_b == 1 ? 0 : stride.b};
    stride = {.y = stride.y * extent, .a = stride.a * of_a, .b = stride.b * of_b};
    if (!found.empty()) {
      BroadcastAxis& inner = found.back();
      if (continues(axis.a, inner.a, inner.extent) && continues(axis.b, inner.b, inner.extent)) {
        inner.extent *= extent;
        continue;
      }
    }
    found.push_back(axis);
  }
  if (found.empty()) found.push_back({.y = 1, .a = 1, .b = 1});
  BroadcastAxes axes;
  for (std::size_t i = found.size(); i-- > 0;) append(axes, found[i]);
  return axes;
}

BroadcastAxes exchanged(BroadcastAxes axes) {
  for (BroadcastAxis& axis : std::span(axes.at).first(static_cast<std::size_t>(axes.count))) std::swap(axis.a, axis.b);
  return axes;
}

GradientAxes gradient_axes(const BroadcastAxes& axes) {
  GradientAxes divided;
  for (const BroadcastAxis& axis : std::span(axes.at).first(static_cast<std::size_t>(axes.count))) {
    append(axis.a != 0 ? divided.kept : divided.summed, axis);
  }
  return divided;
}

}  // namespace carillon
