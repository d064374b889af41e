// Imports ONNX's means, sums, norms and largest elements over axes.
#include <algorithm>

#include "kernels/broadcast/broadcast.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layout/layout.h"
#include "kernels/pool/pool.h"
#include "src/onnx/importer.h"

namespace carillon {

Placed max_over(Importer& importer, const OnnxNode& node, const Placed& x, const std::vector<bool>& reduces) {
  std::vector<int> order{static_cast<int>(x.batch_axis())}, kept = order;
  for (const int axis : stored_order(x)) {
    const auto own = static_cast<std::size_t>(axis);
    if (!x.is_batch(own)) (reduces[own] ? order : kept).push_back(axis);
  }
  if (order.size() == 1) return x;
  order.insert(order.end(), kept.begin() + 1, kept.end());
  Graph& graph = importer.graph();
  Extents extents, shape = x.shape;
  std::int64_t rows = 1, columns = 1;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto own = static_cast<std::size_t>(order[i]);
    (reduces[own] ? rows : columns) *= x.shape[own];
    if (!reduces[own]) extents.push_back(x.shape[own]);
    if (reduces[own]) shape[own] = 1;
  }
  // The elements are the rows of an image of width 1. A window of a pool has at most 256 rows.
  Value value = reshape(graph, importer.op_name(node, "/rows"), importer.arranged(node, x, order),
                        {.extents = {rows, 1, columns}});
  while (rows > 1) {
    std::int64_t window = std::min<std::int64_t>(rows, 256);
    while (rows % window != 0) --window;
    if (window == 1) importer.refuse(node, fmt::format("has {} elements, which is not supported", rows));
    value =
        max_pool(graph, importer.op_name(node, "/largest"), value,
                 {.window = window, .stride = window, .padding = Padding::valid, .window_width = 1, .stride_width = 1});
    rows /= window;
  }
  if (extents.empty()) {  // a value needs an axis after the batch
    extents.push_back(1);
    kept.push_back(order[1]);
  }
  value = reshape(graph, importer.op_name(node), value, {.extents = extents});
  return Importer::placed(value, std::move(shape), kept, x.batch);
}

namespace {

/// The axes that the node reduces.
std::vector<bool> reduced_axes(Importer& importer, const OnnxNode& node, const Placed& x) {
  std::vector<bool> reduces(x.rank(), false);
  const std::optional<Extents> axes = importer.integers(node, 1, "axes");
  const bool reduces_all = (!axes || axes->empty()) && node.integer("noop_with_empty_axes", 0) == 0;
  if (reduces_all) importer.refuse(node, "does not keep the batch");
  for (const std::int64_t axis : axes.value_or(Extents{})) {
    const std::size_t own = importer.axis(node, axis, x);
    if (x.is_batch(own)) importer.refuse(node, "does not keep the batch");
    reduces[own] = true;
  }
  return reduces;
}

/// Adds the mean over the axes that the node reduces. Sets `count` to the number of elements in each mean.
Placed mean_over(Importer& importer, const OnnxNode& node, Placed x, std::int64_t& count) {
  const std::vector<bool> reduces = reduced_axes(importer, node, x);
  Graph& graph = importer.graph();
  std::vector<std::int64_t> own;  // the reduced axes in memory
  count = 1;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!reduces[i]) continue;
    count *= x.shape[i];
    if (x.axes[i] >= 0) own.push_back(x.axes[i]);
  }
  std::ranges::sort(own);
  const bool reduces_all = own.size() + 1 == graph.shape(x.value).rank();  // then the mean keeps its axes
  if (!own.empty()) {
    const bool are_spatial = graph.shape(x.value).rank() == 4 && own == Extents{1, 2};
    x.value = are_spatial ? global_avg_pool(graph, importer.op_name(node), x.value)
                          : mean(graph, importer.op_name(node), x.value, {.axes = own, .keeps_axes = reduces_all});
  }
  const bool keeps = node.integer("keepdims", 1) != 0;
  Placed y{x.value, {}, {}, x.batch};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (reduces[i] && !keeps) continue;
    y.shape.push_back(reduces[i] ? 1 : x.shape[i]);
    if (reduces_all) {
      y.axes.push_back(x.axes[i]);
      continue;
    }
    const auto smaller = std::ranges::count_if(own, [&](std::int64_t axis) { return axis < x.axes[i]; });
    y.axes.push_back(reduces[i] || x.axes[i] < 0 ? -1 : x.axes[i] - static_cast<int>(smaller));
  }
  return y;
}

void add_reduce_mean(Importer& importer, const OnnxNode& node) {
  std::int64_t count = 1;
  importer.set_output(node, mean_over(importer, node, importer.input(node), count));
}

void add_reduce_sum(Importer& importer, const OnnxNode& node) {
  std::int64_t count = 1;
  const Placed y = mean_over(importer, node, importer.input(node), count);
  importer.set_output(
      node, with_value(y, scale(importer.graph(), importer.op_name(node), y.value, static_cast<float>(count))));
}

/// Computes sqrt(sum of squares).
void add_reduce_l2(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  Graph& graph = importer.graph();
  std::int64_t count = 1;
  const Value squares = multiply(graph, importer.op_name(node), x.value, x.value);
  const Placed y = mean_over(importer, node, with_value(x, squares), count);
  const Value sum = scale(graph, importer.op_name(node), y.value, static_cast<float>(count));
  importer.set_output(node, with_value(y, sqrt(graph, importer.op_name(node), sum)));
}

void add_reduce_max(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::vector<bool> reduces = reduced_axes(importer, node, x);
  Placed y = max_over(importer, node, x, reduces);
  for (std::size_t i = x.rank(); i-- > 0 && node.integer("keepdims", 1) == 0;) {
    if (reduces[i]) y = importer.without_axis(node, y, i);
  }
  importer.set_output(node, std::move(y));
}

void add_global_max_pool(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (x.rank() != 4 || x.batch != BatchInFile::separate || !x.is_batch(0))
    importer.refuse(node, "does not slide over images");
  importer.set_output(node, max_over(importer, node, x, {false, false, true, true}));
}

constexpr Operator operators[] = {{"GlobalMaxPool", add_global_max_pool},
                                  {"ReduceL2", add_reduce_l2},
                                  {"ReduceMax", add_reduce_max},
                                  {"ReduceMean", add_reduce_mean},
                                  {"ReduceSum", add_reduce_sum}};

}  // namespace

std::span<const Operator> reduction_operators() { return operators; }

}  // namespace carillon
