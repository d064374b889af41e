// Imports ONNX's operators that read elements by constant indices, or repeat elements: Expand, Gather, GatherND,
// ScatterND and Tile.
#include <algorithm>
#include <numeric>

#include "kernels/layout/layout.h"
#include "src/onnx/importer.h"

namespace carillon {

Placed gathered_axis(Importer& importer, const OnnxNode& node, const Placed& x, std::size_t axis, GatherParams params) {
  Placed y = importer.with_axis(node, x, axis);
  const auto count = static_cast<std::int64_t>(params.indices.size());
  if (std::max(x.shape[axis], count) > max_folded) importer.refuse(node, "reads or makes an axis that is too long");
  importer.charge(node, 16 * (x.shape[axis] + count));
  params.axis = y.axes[axis];
  y.shape[axis] = static_cast<std::int64_t>(params.indices.size()) / params.terms;
  y.value = gather(importer.graph(), importer.op_name(node), y.value, params);
  return y;
}

namespace {

/// Divides an axis into several axes.
Placed with_divided_axis(Importer& importer, const OnnxNode& node, const Placed& x, std::size_t axis,
                         const Extents& shape) {
  const int own = x.axes[axis], more = static_cast<int>(shape.size()) - 1;
  Placed y = x;
  Extents extents = importer.graph().shape(x.value).extents();
  extents.erase(extents.begin() + own);
  extents.insert(extents.begin() + own, shape.begin(), shape.end());
  extents.erase(extents.begin());
  y.value = reshape(importer.graph(), importer.op_name(node), x.value, {.extents = extents});
  for (int& other : y.axes) other += other > own ? more : 0;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  y.shape.erase(y.shape.begin() + at);
  y.axes.erase(y.axes.begin() + at);
  y.shape.insert(y.shape.begin() + at, shape.begin(), shape.end());
  for (int i = more; i >= 0; --i) y.axes.insert(y.axes.begin() + at, own + i);
  return y;
}

void add_gather(Importer& importer, const OnnxNode& node) {
  const Placed x = importer.input(node, 0);
  const OnnxConstant indices = importer.constant(node, 1);
  const std::size_t axis = importer.axis(node, node.integer("axis", 0), x);
  if (indices == nullptr || indices->has_floats || indices->integers.empty())
    importer.refuse(node, "needs constant indices");
  const std::int64_t extent = x.shape[axis];
  const auto count = static_cast<std::int64_t>(indices->integers.size());
  Extents places = indices->integers;
  for (std::int64_t& place : places) {
    if (place < 0) place += extent;
    if (place < 0 || place >= extent) importer.refuse(node, "reads an element that its input lacks");
  }
  if (are_consecutive(places) && indices->shape.size() <= 1) {
    const Placed y = part_of(importer, node, x, axis, places[0], count, 1);
    return importer.set_output(node, indices->shape.empty() ? importer.without_axis(node, y, axis) : y);
  }
  Placed y = gathered_axis(importer, node, x, axis, {.indices = places});
  if (indices->shape.size() > 1) y = with_divided_axis(importer, node, y, axis, indices->shape);
  importer.set_output(node, std::move(y));
}

/// Reads elements or rows at constant indices of the first axes.
void add_gather_nd(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const OnnxConstant indices = importer.constant(node, 1);
  if (indices == nullptr || indices->has_floats || indices->shape.empty() || indices->integers.empty())
    importer.refuse(node, "needs constant indices");
  const auto count = static_cast<std::size_t>(indices->shape.back());
  if (node.integer("batch_dims", 0) != 0 || !x.lacks_batch() || count < 1 || count > x.file_rank())
    importer.refuse(node, "does not keep the batch");
  const Extents shape = x.file_shape();
  Extents joined{1}, places;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i < count) joined[0] *= shape[i];
    if (i >= count) joined.push_back(shape[i]);
  }
  for (std::size_t i = 0; i < indices->integers.size(); i += count) {
    std::int64_t place = 0;
    for (std::size_t k = 0; k < count; ++k) {
      const std::int64_t index = indices->integers[i + k];
      if (index < -shape[k] || index >= shape[k]) importer.refuse(node, "reads an element that its input lacks");
      place = place * shape[k] + (index < 0 ? index + shape[k] : index);
    }
    places.push_back(place);
  }
  const std::size_t first = 1;  // axis 0 of x.shape is the batch
  Placed y = gathered_axis(importer, node, importer.reshaped(node, x, joined), first, {.indices = places});
  if (indices->shape.size() == 1) y = importer.without_axis(node, y, first);
  if (indices->shape.size() > 2)
    y = with_divided_axis(importer, node, y, first, Extents(indices->shape.begin(), indices->shape.end() - 1));
  importer.set_output(node, std::move(y));
}

/// Repeats a constant, such as a class token, for each sample.
void expand_constant(Importer& importer, const OnnxNode& node, const OnnxArray& values, const Extents& shape) {
  if (shape.size() < values.shape.size()) importer.refuse(node, "has another shape than its input");
  const std::size_t rank = shape.size();
  const Placed y = importer.variable(node, values, rank, ascending(rank));
  Extents repeated = y.shape;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    if (repeated[i] == 1) repeated[i] = shape[i];
    if (shape[i] != repeated[i] && shape[i] != 1) importer.refuse(node, "has another shape than its input");
  }
  importer.set_output(node, importer.repeated(node, y, repeated));
}

void add_expand(Importer& importer, const OnnxNode& node) {
  const OnnxConstant values = importer.constant(node, 0), shape = importer.constant(node, 1);
  if (shape == nullptr || shape->integers.empty()) importer.refuse(node, "needs a constant shape");
  if (values != nullptr) return expand_constant(importer, node, *values, shape->integers);
  Placed x = importer.input(node);
  const std::size_t count = shape->integers.size();
  if (x.lacks_batch() && shape->integers[0] == batch_mark)
    x = importer.with_batch(node, x, Importer::placed(x.value, Extents(count, 1), {0}));
  if (count > x.file_rank()) importer.refuse(node, "adds an axis, which is not supported");
  Extents repeated = x.shape;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = importer.axis(node, static_cast<std::int64_t>(x.file_rank() - count + i), x);
    const std::int64_t extent = shape->integers[i];
    if (extent == 1) continue;
    if (x.is_batch(axis)) {
      const bool keeps_batch = extent % batch_mark == 0 || extent == importer.batch_of_file() || x.merges_batch();
      if (!keeps_batch) importer.refuse(node, "does not keep the batch");
      continue;
    }
    if (repeated[axis] == 1) repeated[axis] = shape->integers[i];
    if (repeated[axis] != shape->integers[i]) importer.refuse(node, "has another shape than its input");
  }
  // Arithmetic nodes broadcast their inputs. Therefore a repetition before such a node needs no op if the other input
  // of the node has all elements.
  const OnnxNode* const reader = importer.sole_reader(node.output());
  const bool broadcasts = reader != nullptr && (reader->type() == "Mul" || reader->type() == "Add" ||
                                                reader->type() == "Sub" || reader->type() == "Div");
  if (broadcasts) {
    const int other = reader->input(0) == node.output() ? 1 : 0;
    if (importer.is_placed(*reader, other) && importer.input(*reader, other).shape == repeated)
      return importer.set_output(node, x);
  }
  importer.set_output(node, importer.repeated(node, x, repeated));
}

void add_tile(Importer& importer, const OnnxNode& node) {
  Placed x = importer.input(node);
  const OnnxConstant repeats = importer.constant(node, 1);
  if (repeats == nullptr || repeats->integers.size() != x.file_rank() || x.merges_batch())
    importer.refuse(node, "needs a constant number of repeats for each axis");
  for (std::size_t i = 0; i < x.file_rank(); ++i) {
    const std::int64_t times = repeats->integers[i];
    const std::size_t axis = x.own_axis(i);
    const bool repeats_row = times == batch_mark && importer.one_row.contains(node.input(0));
    if (times == 1 || (x.is_batch(axis) && repeats_row)) continue;
    if (x.is_batch(axis)) importer.refuse(node, "does not keep the batch");
    if (times < 1 || times > max_folded / x.shape[axis]) importer.refuse(node, "has an invalid number of repeats");
    Extents indices;
    for (std::int64_t k = 0; k < times; ++k) {
      for (std::int64_t place = 0; place < x.shape[axis]; ++place) indices.push_back(place);
    }
    x = gathered_axis(importer, node, x, axis, {.indices = std::move(indices)});
  }
  importer.set_output(node, std::move(x));
}

// ScatterND

/// Returns the indices along each axis. The indices of a ScatterND must be a grid: PyTorch exports an assignment to a
/// part of a tensor, y[:, a:b, c:d] = x, as a Concat of one array of indices for each axis. `rank`: number of axes.
std::vector<Extents> grid_of(Importer& importer, const OnnxNode& node, std::size_t rank) {
  const auto refuse = [&] { importer.refuse(node, "has indices that are no grid, which is not supported"); };
  const OnnxNode* const all = importer.producer(node, 1);
  if (all == nullptr || all->type() != "Concat" || static_cast<std::size_t>(all->input_count()) != rank) refuse();
  std::vector<Extents> grid;
  for (std::size_t k = 0; k < rank; ++k) {
    const OnnxNode* one = importer.producer(*all, static_cast<int>(k));
    if (one == nullptr || one->type() != "Unsqueeze") refuse();
    one = importer.producer(*one, 0);
    if (one == nullptr || one->type() != "Expand") refuse();
    const OnnxConstant indices = importer.constant(*one, 0);
    if (indices == nullptr || indices->has_floats || indices->integers.empty()) refuse();
    // Only the axis k of the grid may have several indices.
    for (std::size_t i = 0; i < indices->shape.size(); ++i) {
      if (indices->shape[i] != 1 && indices->shape.size() - i != rank - k) refuse();
    }
    grid.push_back(indices->integers);
  }
  return grid;
}

/// Returns 0, 1, ..., count - 1.
Extents ascending_places(std::int64_t count) {
  Extents places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

bool are_all(const Extents& indices, std::int64_t extent) {
  return std::ssize(indices) == extent && indices == ascending_places(extent);
}

/// Replaces the elements of a grid by `updates`, beginning with the axis `axis` of the grid.
Placed with_replaced(Importer& importer, const OnnxNode& node, const Placed& x, const Placed& updates,
                     const std::vector<Extents>& grid, std::size_t axis) {
  while (axis < grid.size() && are_all(grid[axis], x.shape[axis])) ++axis;
  if (axis == grid.size()) return updates;
  // Each element of the axis comes from x or, if the grid has its index, from the replaced rows, which are appended to
  // x.
  if (x.shape[axis] > max_folded) importer.refuse(node, "reads or makes an axis that is too long");
  Extents kept = grid[axis], places = ascending_places(x.shape[axis]);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] < 0) kept[i] += x.shape[axis];
    const bool is_new = kept[i] >= 0 && kept[i] < x.shape[axis] && places[static_cast<std::size_t>(kept[i])] == kept[i];
    if (!is_new) importer.refuse(node, "writes an element twice, or one that its input lacks");
    places[static_cast<std::size_t>(kept[i])] = x.shape[axis] + static_cast<std::int64_t>(i);
  }
  const Placed rows = gathered_axis(importer, node, x, axis, {.indices = kept});
  const Placed parts[] = {x, with_replaced(importer, node, rows, updates, grid, axis + 1)};
  return gathered_axis(importer, node, concatenated(importer, node, parts, axis), axis, {.indices = places});
}

void add_scatter(Importer& importer, const OnnxNode& node) {
  if (node.text("reduction", "none") != "none") importer.refuse(node, "adds elements, which is not supported");
  const Placed updates = importer.input(node, 2);
  if (updates.batch != BatchInFile::separate || !updates.is_batch(0)) importer.refuse(node, "does not keep the batch");
  const OnnxConstant known = importer.shaped_constant(node.input(0));
  Extents shape = known ? known->shape : importer.input(node).shape;
  if (known && known->repeats_batch) shape[0] = batch_mark;
  const std::vector<Extents> grid = grid_of(importer, node, shape.size());
  for (std::size_t k = 0; k < grid.size(); ++k) {
    if (updates.rank() != grid.size() || updates.shape[k] != static_cast<std::int64_t>(grid[k].size()))
      importer.refuse(node, "has updates of another shape than its indices");
    if (!are_all(grid[k], shape[k]) && (k == 0 || known))
      importer.refuse(node, "replaces a part of a constant or of the batch, which is not supported");
  }
  importer.set_output(node, known ? updates : with_replaced(importer, node, importer.input(node), updates, grid, 0));
}

constexpr Operator operators[] = {{"Expand", add_expand, true},
                                  {"Gather", add_gather, true},
                                  {"GatherND", add_gather_nd, true},
                                  {"ScatterND", add_scatter},
                                  {"Tile", add_tile, true}};

}  // namespace

std::span<const Operator> gather_operators() { return operators; }

}  // namespace carillon
