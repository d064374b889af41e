// Arranges the axes of values of imported networks.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "kernels/broadcast/broadcast.h"
#include "kernels/layout/layout.h"
#include "kernels/values/values.h"
#include "src/models/layers.h"
#include "src/onnx/importer.h"

namespace carillon {

Initializer fan_in(std::int64_t count) { return fan_in_uniform(std::max<std::int64_t>(count, 1)); }

std::vector<std::int64_t> Placed::file_shape() const {
  std::vector<std::int64_t> extents = shape;
  const auto first = extents.begin() + static_cast<std::ptrdiff_t>(joined_axis());
  if (batch == BatchInFile::separate) return extents;
  if (merges_batch()) first[1] *= first[0];
  extents.erase(first);
  return extents;
}

std::vector<int> stored_order(const Placed& placed) {
  std::vector<int> order;
  for (int axis = 0; axis < static_cast<int>(placed.rank()); ++axis) {
    if (placed.axes[static_cast<std::size_t>(axis)] >= 0) order.push_back(axis);
  }
  std::ranges::sort(order, {}, [&](int axis) { return placed.axes[static_cast<std::size_t>(axis)]; });
  return order;
}

std::vector<int> natural_order(const Placed& placed) {
  std::vector<int> order = ascending(placed.rank());
  const auto batch = order.begin() + static_cast<std::ptrdiff_t>(placed.batch_axis());
  std::rotate(order.begin(), batch, batch + 1);
  return order;
}

bool are_consecutive(const Extents& indices) {
  const auto follows = [](std::int64_t before, std::int64_t index) { return index == before + 1; };
  return std::ranges::adjacent_find(indices, std::not_fn(follows)) == indices.end();
}

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
  if (extents.size() == 2) return y;  // a value needs an axis after the batch, so an axis of extent 1 stays
  extents.erase(extents.begin() + own);
  extents.erase(extents.begin());
  y.value = reshape(graph_, op_name(node), x.value, {.extents = extents});
  for (int& other : y.axes) other -= other > own ? 1 : 0;
  return y;
}

namespace {

std::int64_t product_of(std::span<const std::int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// A group of neighbouring axes of a value and the group of axes of the reshaped value that has the same elements. Axes
/// of extent 1 belong to no group.
struct Group {
  std::vector<int> from, to;
};

/// Adds the groups of the axes [i, end_i) of `from` and [j, end_j) of `to`. Returns false if they do not match.
bool add_groups(std::vector<Group>& groups, const Extents& from, std::size_t i, std::size_t end_i, const Extents& to,
                std::size_t j, std::size_t end_j) {
  while (i < end_i || j < end_j) {
    std::int64_t before = 1, after = 1;
    Group group;
    do {
      if (i < end_i && (before <= after || j == end_j)) {
        if (from[i] != 1) group.from.push_back(static_cast<int>(i));
        before *= from[i++];
      } else if (j < end_j) {
        if (to[j] != 1) group.to.push_back(static_cast<int>(j));
        after *= to[j++];
      } else {
        return false;
      }
    } while (before != after);
    if (!group.from.empty()) groups.push_back(std::move(group));
  }
  return true;
}

}  // namespace

Placed Importer::reshaped(const OnnxNode& node, const Placed& x, const Extents& shape) {
  // `to`: the new shape, with the batch on its own axis.
  const std::size_t from_batch = x.batch_axis();
  std::size_t to_batch = 0;
  Extents to = shape;
  BatchInFile batch = BatchInFile::absent;
  if (x.lacks_batch()) {
    to.insert(to.begin(), batch_mark);
  } else {
    const auto is_marked = [](std::int64_t extent) { return extent % batch_mark == 0; };
    const auto at = std::ranges::find_if(to, is_marked);
    if (at == to.end() || std::ranges::count_if(to, is_marked) != 1) refuse(node, "does not keep the batch");
    // `before`: elements of a sample on the axes before the batch. The batch keeps its position among the elements.
    const std::int64_t before = product_of(std::span(x.shape).first(from_batch)), rest = *at / batch_mark,
                       earlier = product_of(std::span(to.begin(), at));
    to_batch = static_cast<std::size_t>(at - to.begin());
    *at = batch_mark;
    if (rest == 1 && earlier == before) {
      batch = BatchInFile::separate;
    } else if (earlier == before) {
      batch = BatchInFile::joined_with_next;
      to.insert(at + 1, rest);
    } else if (earlier * rest == before) {
      batch = BatchInFile::joined_with_previous;
      to.insert(at, rest);
      ++to_batch;
    } else {
      refuse(node, "does not keep the batch");
    }
  }
  std::vector<Group> groups;
  if (!add_groups(groups, x.shape, 0, from_batch, to, 0, to_batch) ||
      !add_groups(groups, x.shape, from_batch + 1, x.rank(), to, to_batch + 1, to.size())) {
    refuse(node, "has another number of elements than its input");
  }
  std::vector<int> stored;
  for (const int axis : stored_order(x)) {
    if (!x.is_batch(static_cast<std::size_t>(axis)) && x.shape[static_cast<std::size_t>(axis)] != 1)
      stored.push_back(axis);
  }
  const auto are_neighbours = [&](const Group& group) {
    const auto first = std::ranges::find(stored, group.from.front());
    return static_cast<std::size_t>(stored.end() - first) >= group.from.size() &&
           std::equal(group.from.begin(), group.from.end(), first);
  };
  Value value = x.value;
  if (!std::ranges::all_of(groups, are_neighbours)) {
    value = natural(node, x);
    stored.clear();
    for (const Group& group : groups) stored.insert(stored.end(), group.from.begin(), group.from.end());
  }
  std::vector<int> order{static_cast<int>(to_batch)};
  for (const int axis : stored) {
    const auto group = std::ranges::find_if(groups, [&](const Group& one) { return one.from.front() == axis; });
    if (group != groups.end()) order.insert(order.end(), group->to.begin(), group->to.end());
  }
  if (order.size() == 1) {  // one element per sample: a value needs an axis after the batch
    if (to.size() < 2) refuse(node, "has no axis besides the batch");
    order.push_back(to_batch == 0 ? 1 : 0);
  }
  Extents extents;
  for (std::size_t k = 1; k < order.size(); ++k) extents.push_back(to[static_cast<std::size_t>(order[k])]);
  const Extents& own = graph_.shape(value).extents();
  if (!std::equal(own.begin() + 1, own.end(), extents.begin(), extents.end())) {
    value = reshape(graph_, op_name(node), value, {.extents = extents});
  }
  return placed(value, to, order, batch);
}

Placed Importer::parameter(const OnnxNode& node, const OnnxArray& values) {
  Placed placed = variable(node, values, values.shape.size() + 1, ascending(values.shape.size() + 1));
  placed.batch = BatchInFile::absent;
  return placed;
}

Placed Importer::with_batch(const OnnxNode& node, const Placed& x, const Placed& other) {
  if (!x.lacks_batch()) return x;
  const auto refuse_shapes = [&] { refuse(node, "combines arrays and values of different shapes"); };
  Placed y = x;
  if (y.file_rank() > other.file_rank() && !other.lacks_batch()) refuse_shapes();
  const std::size_t missing = std::max(other.file_rank(), y.file_rank()) - y.file_rank();
  y.shape.insert(y.shape.begin() + 1, missing, 1);
  y.axes.insert(y.axes.begin() + 1, missing, -1);
  if (other.lacks_batch()) return y;
  // y is [batch, axes in the file]. The batch moves to the position of the axis that contains the batch in the file.
  const std::size_t in_file = other.merges_batch() ? other.joined_axis() : other.batch_axis();
  if (y.shape[in_file + 1] != 1) refuse_shapes();
  if (!other.merges_batch()) y = without_axis(node, y, in_file + 1);
  const auto place = static_cast<std::ptrdiff_t>(other.batch_axis());
  std::rotate(y.shape.begin(), y.shape.begin() + 1, y.shape.begin() + place + 1);
  std::rotate(y.axes.begin(), y.axes.begin() + 1, y.axes.begin() + place + 1);
  y.batch = other.batch;
  return y;
}

Placed Importer::repeated(const OnnxNode& node, const Placed& x, const Extents& shape) {
  if (x.shape == shape) return x;
  const std::vector<int> order = natural_order(x);
  Extents extents;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (x.is_batch(i)) continue;
    if (x.shape[i] != shape[i] && x.shape[i] != 1) refuse(node, "repeats a value in a way that is not supported");
    extents.push_back(shape[i]);
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
  const bool keeps_order = arranged_values == values.floats;
  give(name + "/values", values,
       {.order = fmt::format("variable {}{}", fmt::join(extents, ","),
                             keeps_order ? "" : fmt::format(" with steps {}", fmt::join(steps, ","))),
        .values = [&] { return std::move(arranged_values); },
        .keeps_name = keeps_order});
  result.value = carillon::variable(graph_, name, {.shape = extents, .trains = !values.name.empty()});
  return result;
}

}  // namespace carillon
