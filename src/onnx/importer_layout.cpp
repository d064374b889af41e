// Arranges the axes of values of imported networks.
#include <algorithm>

#include "kernels/broadcast/broadcast.h"
#include "kernels/layout/layout.h"
#include "kernels/values/values.h"
#include "src/models/layers.h"
#include "src/onnx/importer.h"

namespace carillon {

Initializer fan_in(std::int64_t count) { return fan_in_uniform(std::max<std::int64_t>(count, 1)); }

/// The axes of `placed` that its value has, in the order of the value.
std::vector<int> stored_order(const Placed& placed) {
  std::vector<int> order;
  for (int axis = 0; axis < static_cast<int>(placed.rank()); ++axis) {
    if (placed.axes[static_cast<std::size_t>(axis)] >= 0) order.push_back(axis);
  }
  std::ranges::sort(order, {}, [&](int axis) { return placed.axes[static_cast<std::size_t>(axis)]; });
  return order;
}

/// 0, 1, ..., count - 1
std::vector<int> ascending(std::size_t count) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < count; ++i) axes.push_back(static_cast<int>(i));
  return axes;
}

Value Importer::arranged(const OnnxNode& node, const Placed& placed, const std::vector<int>& order) {
  const std::vector<int> stored = stored_order(placed);
  std::vector<int> wanted;  // the axes in memory, in the requested order
  for (const int axis : order) {
    if (placed.axes[static_cast<std::size_t>(axis)] >= 0) wanted.push_back(axis);
  }
  check(wanted.size() == stored.size(), "a value loses an axis");
  Value value = placed.value;
  if (wanted != stored) {
    std::vector<std::int64_t> axes;
    for (const int axis : wanted) axes.push_back(placed.axes[static_cast<std::size_t>(axis)]);
    value = transpose(graph_, op_name(node, "/transpose"), value, {.axes = axes});
  }
  if (wanted.size() != order.size()) {
    Extents extents;
    for (std::size_t i = 1; i < order.size(); ++i) extents.push_back(placed.shape[static_cast<std::size_t>(order[i])]);
    value = reshape(graph_, op_name(node, "/reshape"), value, {.extents = extents});
  }
  return value;
}

Placed Importer::with_last(const OnnxNode& node, const Placed& x, int last) {
  std::vector<int> order = stored_order(x);
  std::erase(order, last);
  order.push_back(last);
  return placed(arranged(node, x, order), x.shape, order, x.batch);
}

Placed Importer::without_axis(const OnnxNode& node, const Placed& x, std::size_t axis) {
  Placed y = x;
  const int own = x.axes[axis];
  y.shape.erase(y.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  y.axes.erase(y.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  if (own < 0) return y;
  Extents extents = graph_.shape(x.value).extents();
  if (extents.size() == 2) refuse(node, "leaves no axis besides the batch, which is not supported");
  extents.erase(extents.begin() + own);
  extents.erase(extents.begin());
  y.value = reshape(graph_, op_name(node), x.value, {.extents = extents});
  for (int& other : y.axes) other -= other > own ? 1 : 0;
  return y;
}

Placed Importer::reshaped(const OnnxNode& node, const Placed& x, const Extents& shape) {
  if (!x.is_batch(0)) refuse(node, "reshapes a value whose first axis is not the batch, which is not supported");
  // A group of neighbouring axes of `x` and the group of axes of the result that has the same elements. Axes of extent
  // 1 belong to no group.
  struct Group {
    std::vector<int> from, to;
  };
  std::vector<Group> groups;
  std::size_t i = 1, j = 1;
  while (i < x.rank() || j < shape.size()) {
    std::int64_t before = 1, after = 1;
    Group group;
    do {
      if (i < x.rank() && (before <= after || j == shape.size())) {
        if (x.shape[i] != 1) group.from.push_back(static_cast<int>(i));
        before *= x.shape[i++];
      } else if (j < shape.size()) {
        if (shape[j] != 1) group.to.push_back(static_cast<int>(j));
        after *= shape[j++];
      } else {
        refuse(node, "has another number of elements than its input");
      }
    } while (before != after);
    if (!group.from.empty()) groups.push_back(std::move(group));
  }
  std::vector<int> stored;
  for (const int axis : stored_order(x)) {
    if (axis == 0 || x.shape[static_cast<std::size_t>(axis)] != 1) stored.push_back(axis);
  }
  const auto are_neighbours = [&](const Group& group) {
    const auto first = std::ranges::find(stored, group.from.front());
    return static_cast<std::size_t>(stored.end() - first) >= group.from.size() &&
           std::equal(group.from.begin(), group.from.end(), first);
  };
  Value value = x.value;
  if (!std::ranges::all_of(groups, are_neighbours)) {
    value = natural(node, x);
    stored = {0};
    for (const Group& group : groups) stored.insert(stored.end(), group.from.begin(), group.from.end());
  }
  std::vector<int> order{0};
  for (const int axis : stored) {
    const auto group = std::ranges::find_if(groups, [&](const Group& one) { return one.from.front() == axis; });
    if (group != groups.end()) order.insert(order.end(), group->to.begin(), group->to.end());
  }
  if (order.size() == 1) {  // one element per sample: a value needs an axis after the batch
    if (shape.size() < 2) refuse(node, "has no axis besides the batch");
    order.push_back(1);
  }
  Extents extents;
  for (std::size_t k = 1; k < order.size(); ++k) extents.push_back(shape[static_cast<std::size_t>(order[k])]);
  const Extents& own = graph_.shape(value).extents();
  if (!std::equal(own.begin() + 1, own.end(), extents.begin(), extents.end())) {
    value = reshape(graph_, op_name(node), value, {.extents = extents});
  }
  return placed(value, shape, order);
}

Placed Importer::parameter(const OnnxNode& node, const OnnxArray& values) {
  const auto known = parameters_.find(values.name);
  if (!values.name.empty() && !values.is_derived && known != parameters_.end() &&
      std::equal(values.shape.begin(), values.shape.end(), known->second.shape.begin() + 1,
                 known->second.shape.end())) {
    return known->second;
  }
  Placed placed = variable(node, values, values.shape.size() + 1, ascending(values.shape.size() + 1));
  placed.batch = BatchInFile::absent;
  if (!values.name.empty() && !values.is_derived) parameters_[values.name] = placed;
  return placed;
}

Placed Importer::input_or_parameter(const OnnxNode& node, int i) {
  const OnnxConstant values = constant(node, i);
  return values == nullptr ? input(node, i) : parameter(node, *floats(node, i));
}

Placed Importer::with_batch(const OnnxNode& node, const Placed& x, std::size_t rank) {
  if (!x.lacks_batch()) return x;
  Placed y = x;
  y.batch = BatchInFile::own_axis;
  while (y.rank() > rank) {
    if (y.shape[1] != 1) refuse(node, "combines arrays and values of different shapes");
    y = without_axis(node, y, 1);
  }
  y.shape.insert(y.shape.begin() + 1, rank - y.rank(), 1);
  y.axes.insert(y.axes.begin() + 1, rank - y.axes.size(), -1);
  return y;
}

Placed Importer::repeated(const OnnxNode& node, const Placed& x, const Extents& shape) {
  if (x.shape == shape) return x;
  const std::vector<int> order = ascending(x.rank());
  Extents extents;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const bool fits = x.is_batch(i) ? i == 0 : x.shape[i] == shape[i] || x.shape[i] == 1;
    if (!fits) refuse(node, "repeats a value in a way that is not supported");
    if (i > 0) extents.push_back(shape[i]);
  }
  const Value ones = carillon::constant(graph_, op_name(node, "/ones"), {.shape = extents, .values = {1.0f}});
  return placed(multiply(graph_, op_name(node), arranged(node, x, order), ones), shape, order, x.batch);
}

Placed Importer::variable(const OnnxNode& node, const OnnxArray& values, std::size_t rank,
                          const std::vector<int>& order) {
  if (!values.has_floats || values.shape.size() > rank || (values.shape.size() == rank && values.shape.front() != 1)) {
    refuse(node, "has a constant that does not match its other input");
  }
  Placed result{{}, Extents(rank, 1), std::vector<int>(rank, -1)};
  result.shape[0] = batch_mark;
  result.axes[0] = 0;
  const std::size_t missing = rank - values.shape.size();
  for (std::size_t i = std::max<std::size_t>(1, missing); i < rank; ++i) result.shape[i] = values.shape[i - missing];
  Extents extents, steps;
  for (const int axis : order) {
    const auto at = static_cast<std::size_t>(axis);
    if (axis == 0 || result.shape[at] == 1) continue;
    std::int64_t step = 1;
    for (std::size_t i = at - missing + 1; i < values.shape.size(); ++i) step *= values.shape[i];
    result.axes[at] = static_cast<int>(extents.size()) + 1;
    extents.push_back(result.shape[at]);
    steps.push_back(step);
  }
  for (std::size_t i = 1; i < rank; ++i) {
    if (result.shape[i] != 1 && result.axes[i] < 0) refuse(node, "has a constant that is larger than its other input");
  }
  if (extents.empty()) extents = steps = {1};
  std::vector<float> arranged_values;
  Extents index(extents.size(), 0);
  for (std::int64_t i = 0; i < values.element_count(); ++i) {
    std::int64_t at = 0;
    for (std::size_t k = 0; k < index.size(); ++k) at += index[k] * steps[k];
    arranged_values.push_back(values.floats[static_cast<std::size_t>(at)]);
    for (std::size_t k = index.size(); k-- > 0 && ++index[k] == extents[k];) index[k] = 0;
  }
  const std::string name = layer_name(node, values);
  result.value = carillon::variable(graph_, name, {.shape = extents, .trains = !values.name.empty()});
  OnnxArray original = values;
  original.is_derived = original.is_derived || arranged_values != values.floats;  // true if the order changed
  give(name + "/values", original, std::move(arranged_values));
  return result;
}

}  // namespace carillon
