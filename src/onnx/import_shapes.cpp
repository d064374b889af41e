// Imports ONNX's operators that change shapes: Flatten, Reshape, Squeeze, Transpose and Unsqueeze.
#include <algorithm>
#include <set>
#include <utility>

#include "src/onnx/importer.h"

namespace carillon {
namespace {

/// Joins the axes before `axis` in the file to one axis, and the axes from `axis` on to a second axis.
void add_flatten(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const Extents shape = x.file_shape();
  const std::int64_t given = node.integer("axis", 1), rank = std::ssize(shape);
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) importer.refuse(node, "has an axis that its input lacks");
  Extents flat{1, 1};
  for (std::int64_t i = 0; i < rank; ++i) flat[i < axis ? 0 : 1] *= shape[static_cast<std::size_t>(i)];
  importer.set_output(node, importer.reshaped(node, x, flat));
}

/// If the only node that reads this Reshape normalises the groups of channels that the Reshape makes, returns that
/// node. Otherwise returns null. PyTorch exports a group norm as Reshape, InstanceNormalization and Reshape.
const OnnxNode* reader_of_groups(Importer& importer, const OnnxNode& node, const Placed& x, const Extents& shape) {
  const OnnxNode* const norm = importer.sole_reader(node.output());
  const bool are_groups = norm != nullptr && norm->type() == "InstanceNormalization" && shape.size() == 3 &&
                          shape[0] == batch_mark && x.rank() > 2 && x.batch == BatchInFile::separate && x.is_batch(0) &&
                          shape[1] >= 1 && x.shape[1] % shape[1] == 0;
  if (!are_groups) return nullptr;
  const OnnxNode* const back = importer.sole_reader(norm->output());
  if (back == nullptr || back->type() != "Reshape") return nullptr;
  // A 0 in the shape would copy an extent of the groups, but the groups are never computed.
  const OnnxConstant back_shape = importer.constant_or_node(*back, 1);
  if (back_shape == nullptr || back_shape->integers.empty() ||
      std::ranges::count(back_shape->integers.begin() + 1, back_shape->integers.end(), 0) > 0) {
    return nullptr;
  }
  for (const auto& [input, value] : {std::pair(1, 1.0f), std::pair(2, 0.0f)}) {
    const OnnxConstant array = importer.constant_or_node(*norm, input);
    const auto is_value = [number = value](float one) { return one == number; };
    if (array == nullptr || !array->has_floats || !std::ranges::all_of(array->floats, is_value)) return nullptr;
  }
  return norm;
}

/// Finds the axis of the batch in a shape of a file that was exported for `samples` samples, and replaces the factor
/// `samples` of its extent by batch_mark. As many elements precede this axis as precede the batch in `x`. Returns false
/// if there is no such axis.
bool mark_batch(Extents& shape, const Placed& x, std::int64_t samples) {
  std::int64_t before = 1, earlier = 1;
  for (std::size_t i = 0; i < x.batch_axis(); ++i) before *= x.shape[i];
  std::int64_t* found = nullptr;
  for (std::int64_t& extent : shape) {
    const bool is_own_axis = extent == samples;
    if (earlier == before && extent % samples == 0 && (found == nullptr || is_own_axis)) found = &extent;
    if (earlier == before && is_own_axis) break;
    earlier *= extent;
  }
  if (found != nullptr) *found = *found / samples * batch_mark;
  return found != nullptr;
}

/// Returns the shape that a Reshape of `x` requests. Replaces 0 and -1 by the actual extents, and the batch size by
/// batch_mark.
Extents requested_shape(Importer& importer, const OnnxNode& node, const Placed& x) {
  const auto refuse_count = [&] { importer.refuse(node, "has another number of elements than its input"); };
  Extents shape = importer.integers(node, 1, "shape").value_or(Extents{});
  if (shape.empty()) importer.refuse(node, "does not keep the batch");
  if (shape.size() > max_axes) importer.refuse(node, "has too many axes");
  const Extents from = x.file_shape();
  const bool keeps_zeros = node.integer("allowzero", 0) != 0;
  std::int64_t all = 1, known = 1;
  for (const std::int64_t extent : from) all *= extent;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !keeps_zeros && i < from.size()) shape[i] = from[i];
    if (shape[i] != -1 && (shape[i] <= 0 || __builtin_mul_overflow(known, shape[i], &known)))
      importer.refuse(node, "has an invalid shape");
  }
  const auto unknown = std::ranges::find(shape, -1);
  if (std::count(shape.begin(), shape.end(), -1) > 1) refuse_count();
  if (!x.lacks_batch() && known % batch_mark != 0) {  // the shape has the file's number of samples, or -1 stands for
                                                      // the batch
    const std::int64_t given = importer.batch_of_file(), samples = std::max<std::int64_t>(given, 1);
    const std::int64_t elements = all / batch_mark * samples;
    const bool is_open = unknown != shape.end() && given < 1;
    if (!is_open && elements % known == 0) {
      if (unknown == shape.end() && elements != known) refuse_count();
      if (unknown != shape.end()) *unknown = elements / known;
      if (!mark_batch(shape, x, samples)) importer.refuse(node, "does not keep the batch");
      return shape;
    }
  }
  if (unknown == shape.end() ? all != known : all % known != 0) refuse_count();
  if (unknown != shape.end()) *unknown = all / known;
  return shape;
}

void add_reshape(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const Extents shape = requested_shape(importer, node, x);
  if (reader_of_groups(importer, node, x, shape) != nullptr) {
    importer.groups_of_reader[node.output()] = shape[1];
    return importer.set_output(node, x);  // the norm keeps the order in memory
  }
  importer.set_output(node, importer.reshaped(node, x, shape));
}

void add_squeeze(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::optional<Extents> axes = importer.integers(node, 1, "axes");
  std::vector<bool> removes(x.rank(), false);
  const bool has_one_sample = importer.batch_of_file() == 1 && x.batch == BatchInFile::separate;
  for (std::size_t i = 0; i < x.rank() && !axes; ++i) removes[i] = x.is_batch(i) ? has_one_sample : x.shape[i] == 1;
  for (const std::int64_t axis : axes.value_or(Extents{})) {
    const std::size_t own = importer.axis(node, axis, x);
    if (x.is_batch(own) ? !has_one_sample : x.shape[own] != 1) importer.refuse(node, "does not keep the batch");
    removes[own] = true;
  }
  Placed y = x;
  for (std::size_t i = x.rank(); i-- > 0;) {
    if (removes[i] && !x.is_batch(i)) y = importer.without_axis(node, y, i);
  }
  // In a file for one image, a shape without the batch is the shape of the image. A neighbouring axis then stands for
  // itself and the batch.
  if (removes[x.batch_axis()]) {
    const bool is_last = y.batch_axis() + 1 == y.rank();
    y.batch = is_last ? BatchInFile::joined_with_previous : BatchInFile::joined_with_next;
  }
  importer.set_output(node, std::move(y));
}

void add_unsqueeze(Importer& importer, const OnnxNode& node) {
  Placed y = importer.input(node);
  const Extents axes = importer.integers(node, 1, "axes").value_or(Extents{});
  std::vector<std::size_t> places;
  const std::size_t rank = y.file_rank() + axes.size();
  if (rank > max_axes) importer.refuse(node, "has too many axes");
  for (const std::int64_t axis : axes) places.push_back(importer.axis(node, axis, rank));
  std::ranges::sort(places);
  for (const std::size_t in_file : places) {
    const std::size_t place = y.merges_batch() && in_file <= y.joined_axis() ? in_file : y.own_axis(in_file);
    if (place > y.rank()) importer.refuse(node, "has an axis that its input lacks");
    y.shape.insert(y.shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
    y.axes.insert(y.axes.begin() + static_cast<std::ptrdiff_t>(place), -1);
  }
  importer.set_output(node, std::move(y));
}

void add_transpose(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const Extents order = node.integers("perm");
  if (order.size() != x.file_rank()) importer.refuse(node, "has another number of axes than its input");
  Placed y{x.value, {}, {}, x.batch};
  if (std::set<std::int64_t>(order.begin(), order.end()).size() != order.size())
    importer.refuse(node, "names an axis twice");
  if (x.lacks_batch()) {
    y.shape.push_back(x.shape[0]);
    y.axes.push_back(x.axes[0]);
  }
  for (const std::int64_t axis : order) {
    const std::size_t from = x.own_axis(importer.axis(node, axis, x.file_rank()));
    const bool is_joined = x.merges_batch() && x.is_batch(from);
    const std::size_t first = is_joined ? x.joined_axis() : from, count = is_joined ? 2 : 1;
    for (std::size_t i = first; i < first + count; ++i) {
      y.shape.push_back(x.shape[i]);
      y.axes.push_back(x.axes[i]);
    }
  }
  importer.set_output(node, std::move(y));
}

constexpr Operator operators[] = {{"Flatten", add_flatten},
                                  {"Reshape", add_reshape, true},
                                  {"Squeeze", add_squeeze, true},
                                  {"Transpose", add_transpose, true},
                                  {"Unsqueeze", add_unsqueeze, true}};

}  // namespace

std::span<const Operator> shape_operators() { return operators; }

}  // namespace carillon
