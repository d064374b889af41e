// Imports ONNX's operators that change shapes, select or join parts, or reduce axes.
#include <algorithm>
#include <set>

#include "kernels/broadcast/broadcast.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layout/layout.h"
#include "kernels/pool/pool.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

void add_flatten(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (node.integer("axis", 1) != 1 || x.merges_batch) importer.refuse(node, "does not keep the batch");
  std::int64_t count = 1;
  for (std::size_t i = 1; i < x.rank(); ++i) count *= x.shape[i];
  importer.set_output(node, importer.reshaped(node, x, {batch_mark, count}));
}

void add_reshape(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  Extents shape = importer.integers(node, 1, "shape").value_or(Extents{});
  const bool keeps_zeros = node.integer("allowzero", 0) != 0;
  const std::size_t merged = x.merges_batch ? 1 : 0;
  std::int64_t all = 1, known = 1, unknown = -1;
  for (std::size_t i = 1; i < x.rank(); ++i) all *= x.shape[i];
  if (shape.empty()) importer.refuse(node, "does not keep the batch");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !keeps_zeros && i + merged < x.rank()) {
      shape[i] = i == 0 && merged > 0 ? batch_mark * x.shape[1] : x.shape[i + merged];
    }
    if (shape[i] == -1) {
      unknown = static_cast<std::int64_t>(i);
    } else if (i > 0 && (shape[i] <= 0 || __builtin_mul_overflow(known, shape[i], &known))) {
      importer.refuse(node, "has an invalid shape");
    }
  }
  const auto divided = [&](std::int64_t divisor) {
    if (divisor <= 0 || all % divisor != 0) importer.refuse(node, "has another number of elements than its input");
    return all / divisor;
  };
  if (unknown == 0) shape[0] = batch_mark * divided(known);
  if (shape[0] == 1 && merged == 0 && known == all) shape[0] = batch_mark;  // the file was exported for a batch of one
  if (shape[0] < batch_mark || shape[0] % batch_mark != 0) importer.refuse(node, "does not keep the batch");
  const std::int64_t windows = shape[0] / batch_mark;  // per sample
  if (unknown > 0) shape[static_cast<std::size_t>(unknown)] = divided(known * windows);
  shape[0] = batch_mark;
  if (windows > 1) shape.insert(shape.begin() + 1, windows);
  Placed y = importer.reshaped(node, x, shape);
  y.merges_batch = windows > 1;
  importer.set_output(node, std::move(y));
}

void add_squeeze(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::optional<Extents> axes = importer.integers(node, 1, "axes");
  std::vector<bool> removes(x.rank(), !axes);
  if (axes) {
    for (const std::int64_t axis : *axes) removes[importer.axis(node, axis, x)] = true;
  }
  Placed y = x;
  for (std::size_t i = x.rank(); i-- > 0;) {
    if (removes[i] && x.shape[i] == 1) y = importer.without_axis(node, y, i);
  }
  importer.set_output(node, std::move(y));
}

/// Pads each ONNX axis by `before` and `after` elements of `value`. Negative numbers crop.
Placed padded(Importer& importer, const OnnxNode& node, const Placed& given, const Extents& before,
              const Extents& after, float value) {
  Placed x = given;
  bool is_stored = true, changes = false;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    if (x.is_batch(i)) importer.refuse(node, "does not keep the batch");
    changes = true;
    is_stored = is_stored && x.axes[i] >= 0;
  }
  if (!changes) return x;
  if (!is_stored) x = Importer::placed(importer.natural(node, x), x.shape, ascending(x.rank()), x.merges_batch);
  const std::size_t rank = importer.graph().shape(x.value).rank();
  PadParams params{.before = Extents(rank - 1, 0), .after = Extents(rank - 1, 0), .value = value};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (x.axes[i] <= 0) continue;
    params.before[static_cast<std::size_t>(x.axes[i] - 1)] = before[i];
    params.after[static_cast<std::size_t>(x.axes[i] - 1)] = after[i];
    x.shape[i] += before[i] + after[i];
    if (x.shape[i] <= 0) importer.refuse(node, "leaves nothing of its input");
  }
  x.value = pad(importer.graph(), importer.op_name(node), x.value, params);
  return x;
}

void add_pad(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant") importer.refuse(node, "pads by " + printable(mode) + ", which is not supported");
  const Extents pads = importer.integers(node, 1, "pads").value_or(Extents{});
  Extents axes = importer.integers(node, 3, "").value_or(Extents{});
  if (axes.empty()) {
    for (std::size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (pads.size() != 2 * axes.size()) importer.refuse(node, "has another number of pads than axes");
  Extents before(x.rank(), 0), after(x.rank(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = importer.axis(node, axes[i], x);
    before[axis] = pads[i];
    after[axis] = pads[axes.size() + i];
  }
  const float value = importer.number(node, 2, "value").value_or(0.0f);
  const OnnxNode* const reader = importer.sole_reader(node.output());
  const bool is_spatial = x.rank() == 4 && before[1] == 0 && after[1] == 0 && before[0] == 0 && after[0] == 0;
  if (reader != nullptr && reader->type() == "Conv" && reader->input(0) == node.output() && is_spatial &&
      value == 0.0f && std::ranges::all_of(pads, [](std::int64_t extent) { return extent >= 0; })) {
    importer.pads_of_reader[node.output()] = {before[2], before[3], after[2], after[3]};
    return importer.set_output(node, x);  // the convolution will pad
  }
  importer.set_output(node, padded(importer, node, x, before, after, value));
}

/// Keeps `count` elements of an axis: element `first`, and every `step`th element after it.
Placed part_of(Importer& importer, const OnnxNode& node, const Placed& x, std::size_t axis, std::int64_t first,
               std::int64_t count, std::int64_t step) {
  if (step == 1) {
    Extents before(x.rank(), 0), after(x.rank(), 0);
    before[axis] = -first;
    after[axis] = first + count - x.shape[axis];
    return padded(importer, node, x, before, after, 0.0f);
  }
  if (x.is_batch(axis)) importer.refuse(node, "does not keep the batch");
  Placed y =
      x.axes[axis] >= 0 ? x : Importer::placed(importer.natural(node, x), x.shape, ascending(x.rank()), x.merges_batch);
  y.value = slice(importer.graph(), importer.op_name(node), y.value,
                  {.axis = y.axes[axis], .first = first, .count = count, .step = step});
  y.shape[axis] = count;
  return y;
}

void add_slice(Importer& importer, const OnnxNode& node) {
  Placed x = importer.input(node);
  const Extents first = importer.integers(node, 1, "starts").value_or(Extents{}),
                last = importer.integers(node, 2, "ends").value_or(Extents{});
  Extents axes = importer.integers(node, 3, "axes").value_or(Extents{});
  if (axes.empty()) {
    for (std::size_t i = 0; i < first.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  const Extents steps = importer.integers(node, 4, "steps").value_or(Extents(axes.size(), 1));
  if (first.size() != axes.size() || last.size() != axes.size() || steps.size() != axes.size()) {
    importer.refuse(node, "has lists of different lengths");
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = importer.axis(node, axes[i], x);
    const std::int64_t extent = x.shape[axis];
    const auto limited = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
    };
    if (steps[i] < 1) importer.refuse(node, "has a step below 1, which is not supported");
    const std::int64_t begin = limited(first[i]), end = limited(last[i]);
    const std::int64_t count = begin < end ? (end - begin + steps[i] - 1) / steps[i] : 0;
    if (count == 0) importer.refuse(node, "leaves nothing of its input");
    x = part_of(importer, node, x, axis, begin, count, steps[i]);
  }
  importer.set_output(node, std::move(x));
}

/// Imports a Gather that selects one element of an axis, or neighbouring elements.
void add_gather(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const OnnxConstant indices = importer.constant(node, 1);
  const std::size_t axis = importer.axis(node, node.integer("axis", 0), x);
  if (indices == nullptr || indices->has_floats || indices->shape.size() > 1 || indices->integers.empty()) {
    importer.refuse(node, "needs one constant index or a list of them");
  }
  const std::int64_t extent = x.shape[axis], given = indices->integers.front(),
                     first = given < 0 ? given + extent : given;
  const auto count = static_cast<std::int64_t>(indices->integers.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if (indices->integers[static_cast<std::size_t>(i)] != given + i)
      importer.refuse(node, "reads elements that are no neighbours, which is not supported");
  }
  if (first < 0 || first >= extent || count > extent - first)
    importer.refuse(node, "reads an element that its input lacks");
  Placed y = part_of(importer, node, x, axis, first, count, 1);
  importer.set_output(node, indices->shape.empty() ? importer.without_axis(node, y, axis) : y);
}

void add_split(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::size_t axis = importer.axis(node, node.integer("axis", 0), x);
  if (x.is_batch(axis)) importer.refuse(node, "does not keep the batch");
  Extents sizes = importer.integers(node, 1, "split").value_or(Extents{});
  if (sizes.empty()) {
    if (node.integer("num_outputs", 1) < 1) importer.refuse(node, "has no outputs");
    const std::int64_t parts = node.integer("num_outputs", node.output_count()),
                       each = (x.shape[axis] + parts - 1) / parts;
    for (std::int64_t left = x.shape[axis]; left > 0; left -= each) sizes.push_back(std::min(each, left));
  }
  if (static_cast<int>(sizes.size()) != node.output_count())
    importer.refuse(node, "has another number of outputs than parts");
  const Placed whole =
      x.axes[axis] >= 0 ? x : Importer::placed(importer.natural(node, x), x.shape, ascending(x.rank()), x.merges_batch);
  const std::vector<Value> parts =
      split(importer.graph(), importer.op_name(node), whole.value, {.axis = whole.axes[axis], .sizes = sizes});
  for (int i = 0; i < node.output_count(); ++i) {
    Placed part = with_value(whole, parts[static_cast<std::size_t>(i)]);
    part.shape[axis] = sizes[static_cast<std::size_t>(i)];
    importer.set_output(node, std::move(part), i);
  }
}

void add_concat(Importer& importer, const OnnxNode& node) {
  const Placed& first = importer.input(node);
  const std::size_t axis = importer.axis(node, node.integer("axis", 0), first);
  if (first.is_batch(axis)) importer.refuse(node, "does not keep the batch");
  const std::vector<int> order = first.axes[axis] >= 0 ? stored_order(first) : ascending(first.rank());
  std::vector<Value> values;
  Extents shape = first.shape;
  shape[axis] = 0;
  for (int i = 0; i < node.input_count(); ++i) {
    const Placed& x = importer.input(node, i);
    if (x.rank() != first.rank()) importer.refuse(node, "has inputs of different shapes");
    std::vector<int> all = order;  // and axes that only this input stores
    for (const int own : stored_order(x)) {
      if (std::ranges::find(all, own) == all.end()) importer.refuse(node, "has inputs of different shapes");
    }
    values.push_back(importer.arranged(node, x, all));
    shape[axis] += x.shape[axis];
  }
  const auto own = std::ranges::find(order, static_cast<int>(axis)) - order.begin();
  const Value y = concat(importer.graph(), importer.op_name(node), values, {.axis = own});
  importer.set_output(node, Importer::placed(y, std::move(shape), order, first.merges_batch));
}

/// Repeats a constant, such as a class token, for each sample.
void add_expand(Importer& importer, const OnnxNode& node) {
  const OnnxConstant values = importer.constant(node, 0);
  const OnnxConstant shape = importer.constant(node, 1);
  // Mul and Add broadcast their inputs, so a repetition before them needs no op.
  const OnnxNode* const reader = importer.sole_reader(node.output());
  const bool repeats = reader != nullptr && (reader->type() == "Mul" || reader->type() == "Add");
  if (repeats && importer.is_placed(node, 0) && shape != nullptr &&
      shape->integers.size() == importer.input(node).rank()) {
    return importer.set_output(node, importer.input(node));
  }
  if (values == nullptr || shape == nullptr || shape->integers.empty())
    importer.refuse(node, "repeats a computed value, which is not supported");
  const std::size_t rank = std::max(shape->integers.size(), values->shape.size());
  const Placed y = importer.variable(node, *values, rank, ascending(rank));
  for (std::size_t i = 1; i < shape->integers.size(); ++i) {
    if (shape->integers[i] != y.shape[i] && shape->integers[i] != 1)
      importer.refuse(node, "repeats other axes than the batch, which is not supported");
  }
  importer.set_output(node, y);
}

void add_unsqueeze(Importer& importer, const OnnxNode& node) {
  Placed y = importer.input(node);
  const Extents axes = importer.integers(node, 1, "axes").value_or(Extents{});
  std::vector<std::size_t> places;
  const std::size_t rank = y.rank() - (y.merges_batch ? 1 : 0) + axes.size();
  for (const std::int64_t axis : axes) places.push_back(importer.axis(node, axis, rank));
  std::ranges::sort(places);
  for (const std::size_t in_file : places) {
    const std::size_t place = y.own_axis(in_file);
    if (place > y.rank()) importer.refuse(node, "has an axis that its input lacks");
    y.shape.insert(y.shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
    y.axes.insert(y.axes.begin() + static_cast<std::ptrdiff_t>(place), -1);
  }
  importer.set_output(node, std::move(y));
}

void add_transpose(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const Extents order = node.integers("perm");
  if (order.size() + (x.merges_batch ? 1 : 0) != x.rank()) {
    importer.refuse(node, "has another number of axes than its input");
  }
  Placed y{x.value, {}, {}, x.merges_batch};
  if (std::set<std::int64_t>(order.begin(), order.end()).size() != order.size())
    importer.refuse(node, "names an axis twice");
  for (const std::int64_t axis : order) {
    const std::size_t from = importer.axis(node, axis, x), count = x.merges_batch && x.is_batch(from) ? 2 : 1;
    for (std::size_t i = from; i < from + count; ++i) {
      y.shape.push_back(x.shape[i]);
      y.axes.push_back(x.axes[i]);
    }
  }
  importer.set_output(node, std::move(y));
}

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
  Placed y{x.value, {}, {}, x.merges_batch};
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

constexpr Operator operators[] = {{"Concat", add_concat},
                                  {"Expand", add_expand},
                                  {"Flatten", add_flatten},
                                  {"Gather", add_gather},
                                  {"Pad", add_pad},
                                  {"ReduceL2", add_reduce_l2},
                                  {"ReduceMean", add_reduce_mean},
                                  {"ReduceSum", add_reduce_sum},
                                  {"Reshape", add_reshape},
                                  {"Slice", add_slice},
                                  {"Split", add_split},
                                  {"Squeeze", add_squeeze},
                                  {"Transpose", add_transpose},
                                  {"Unsqueeze", add_unsqueeze}};

}  // namespace

std::span<const Operator> shape_operators() { return operators; }

}  // namespace carillon
