// Imports ONNX's means, sums and norms over axes.
#include <algorithm>

#include "kernels/broadcast/broadcast.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/pool/pool.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

/// Adds the mean over the axes that the node reduces. Sets `count` to the number of elements in each mean.
Placed mean_over(Importer& importer, const OnnxNode& node, Placed x, std::int64_t& count) {
  std::vector<bool> reduces(x.rank(), false);
  const std::optional<Extents> axes = importer.integers(node, 1, "axes");
  if (!axes) importer.refuse(node, "does not keep the batch");
  for (const std::int64_t axis : *axes) reduces[importer.axis(node, axis, x)] = true;
  Graph& graph = importer.graph();
  std::vector<std::int64_t> own;  // the reduced axes in memory
  count = 1;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!reduces[i]) continue;
    if (x.is_batch(i)) importer.refuse(node, "does not keep the batch");
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
  if (reduces_all) {
    for (std::size_t i = 0; i < x.rank(); ++i) x.shape[i] = reduces[i] ? 1 : x.shape[i];
    if (keeps) return x;
    importer.refuse(node, "keeps no axis besides the batch, which is not supported");
  }
  Placed y{x.value, {}, {}, x.batch};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (reduces[i] && !keeps) continue;
    y.shape.push_back(reduces[i] ? 1 : x.shape[i]);
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

constexpr Operator operators[] = {
    {"ReduceL2", add_reduce_l2}, {"ReduceMean", add_reduce_mean}, {"ReduceSum", add_reduce_sum}};

}  // namespace

std::span<const Operator> reduction_operators() { return operators; }

}  // namespace carillon
