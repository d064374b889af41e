// Imports ONNX's operators that pad values, and cut or join parts of them: Concat, Pad, Slice, Split, SplitToSequence
// and SequenceAt.
#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/layout/layout.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

/// Pads each ONNX axis by `before` and `after` elements of `value`. Negative numbers crop.
Placed padded(Importer& importer, const OnnxNode& node, const Placed& given, const Extents& before,
              const Extents& after, float value) {
  Placed x = given;
  bool changes = false;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    x = importer.with_axis(node, x, i);
    changes = true;
  }
  if (!changes) return x;
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

/// Whether the reader of a Pad node can pad the images itself. A convolution pads with 0. The padding of a max pool is
/// never the largest value of a window. A window of a pool must contain a pixel of the image, so the padding must be
/// less than the window. `pads`: top, left, bottom, right.
bool reader_pads(const OnnxNode& reader, const Extents& pads, float value) {
  if (reader.type() == "Conv") return value == 0.0f && reader.text("auto_pad", "NOTSET") == "NOTSET";
  if (reader.type() != "MaxPool" || value > std::numeric_limits<float>::lowest()) return false;
  const Extents window = reader.integers("kernel_shape"), own = reader.integers("pads", {0, 0, 0, 0});
  if (window.size() != 2 || own.size() != 4 || reader.text("auto_pad", "NOTSET") != "NOTSET") return false;
  for (std::size_t i = 0; i < 4; ++i) {
    if (pads[i] + own[i] >= window[i % 2]) return false;
  }
  return true;
}

/// Pads each ONNX axis with elements of the same axis. `mode`: reflect (without the first and the last element), edge
/// or wrap.
Placed padded_by_elements(Importer& importer, const OnnxNode& node, Placed x, const Extents& before,
                          const Extents& after, const std::string& mode) {
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    const std::int64_t extent = x.shape[i], most = mode == "reflect" ? extent - 1
                                                   : mode == "wrap"  ? extent
                                                                     : max_folded;
    const std::int64_t least = mode == "edge" ? 1 - extent : 0;
    if (std::max(before[i], after[i]) > most || std::min(before[i], after[i]) < least || extent > max_folded)
      importer.refuse(node, "has pads that do not suit its input");
    Extents indices;
    for (std::int64_t at = -before[i]; at < extent + after[i]; ++at) {
      if (mode == "edge") {
        indices.push_back(std::clamp<std::int64_t>(at, 0, extent - 1));
      } else if (mode == "wrap") {
        indices.push_back((at + extent) % extent);
      } else {
        indices.push_back(at < 0 ? -at : at < extent ? at : 2 * (extent - 1) - at);
      }
    }
    if (indices.empty()) importer.refuse(node, "leaves nothing of its input");
    x = gathered_axis(importer, node, x, i, {.indices = std::move(indices)});
  }
  return x;
}

void add_pad(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    importer.refuse(node, "pads by " + printable(mode) + ", which is not supported");
  const Extents pads = importer.integers(node, 1, "pads").value_or(Extents{});
  Extents axes = importer.integers(node, 3, "").value_or(Extents{});
  if (axes.empty()) {
    for (std::size_t i = 0; i < x.file_rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (pads.size() != 2 * axes.size()) importer.refuse(node, "has another number of pads than axes");
  if (std::ranges::any_of(pads, [](std::int64_t pad) { return pad < -max_attribute || pad > max_attribute; }))
    importer.refuse(node, "has pads that are too large");
  Extents before(x.rank(), 0), after(x.rank(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = importer.axis(node, axes[i], x);
    before[axis] = pads[i];
    after[axis] = pads[axes.size() + i];
  }
  if (mode != "constant") return importer.set_output(node, padded_by_elements(importer, node, x, before, after, mode));
  const float value = importer.number(node, 2, "value").value_or(0.0f);
  const OnnxNode* const reader = importer.sole_reader(node.output());
  const bool only_adds = std::ranges::all_of(pads, [](std::int64_t extent) { return extent >= 0; });
  if (reader != nullptr && reader->input(0) == node.output() && only_adds && x.rank() == 4 && before[1] == 0 &&
      after[1] == 0 && before[0] == 0 && after[0] == 0) {
    const Extents spatial{before[2], before[3], after[2], after[3]};
    if (reader_pads(*reader, spatial, value)) {
      importer.pads_of_reader[node.output()] = spatial;
      return importer.set_output(node, x);
    }
  }
  const float finite = std::clamp(value, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  importer.set_output(node, padded(importer, node, x, before, after, finite));
}

}  // namespace

Placed part_of(Importer& importer, const OnnxNode& node, const Placed& x, std::size_t axis, std::int64_t first,
               std::int64_t count, std::int64_t step) {
  if (step == 1) {
    Extents before(x.rank(), 0), after(x.rank(), 0);
    before[axis] = -first;
    after[axis] = first + count - x.shape[axis];
    return padded(importer, node, x, before, after, 0.0f);
  }
  Placed y = importer.with_axis(node, x, axis);
  y.value = slice(importer.graph(), importer.op_name(node), y.value,
                  {.axis = y.axes[axis], .first = first, .count = count, .step = step});
  y.shape[axis] = count;
  return y;
}

Placed concatenated(Importer& importer, const OnnxNode& node, std::span<const Placed> parts, std::size_t axis) {
  const Placed& first = parts.front();
  if (first.is_batch(axis)) importer.refuse(node, "does not keep the batch");
  // Uses the order of the first part if the first part stores all axes that any part stores.
  std::vector<int> order = stored_order(first);
  for (const Placed& x : parts) {
    if (x.rank() != first.rank() || x.batch != first.batch || x.batch_axis() != first.batch_axis())
      importer.refuse(node, "has inputs of different shapes");
    const std::vector<int> own = stored_order(x);
    const auto is_stored = [&](int one) { return first.axes[static_cast<std::size_t>(one)] >= 0; };
    if (first.axes[axis] < 0 || !std::ranges::all_of(own, is_stored)) order = natural_order(first);
  }
  std::vector<Value> values;
  Extents shape = first.shape;
  shape[axis] = 0;
  for (const Placed& x : parts) {
    values.push_back(importer.arranged(node, x, order));
    shape[axis] += x.shape[axis];
  }
  const auto own = std::ranges::find(order, static_cast<int>(axis)) - order.begin();
  const Value y = concat(importer.graph(), importer.op_name(node), values, {.axis = own});
  return Importer::placed(y, std::move(shape), order, first.batch);
}

namespace {

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
    const std::int64_t extent = x.shape[axis], step = steps[i];
    if (step == 0 || step < -max_folded || step > max_folded) importer.refuse(node, "has an invalid step");
    if (step < 0 && extent > max_folded) importer.refuse(node, "reads or makes an axis that is too long");
    const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? extent : extent - 1;
    const auto limited = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? std::max(at, -extent - 1) + extent : at, least, most);
    };
    const std::int64_t begin = limited(first[i]), end = limited(last[i]);
    const std::int64_t distance = step > 0 ? end - begin : begin - end, stride = std::abs(step);
    const std::int64_t count = distance > 0 ? (distance + stride - 1) / stride : 0;
    if (count == 0) importer.refuse(node, "leaves nothing of its input");
    if (step > 0) {
      x = part_of(importer, node, x, axis, begin, count, step);
    } else {
      Extents indices;
      for (std::int64_t k = 0; k < count; ++k) indices.push_back(begin + k * step);
      x = gathered_axis(importer, node, x, axis, {.indices = std::move(indices)});
    }
  }
  importer.set_output(node, std::move(x));
}

/// Divides an axis into parts.
std::vector<Placed> parts_of(Importer& importer, const OnnxNode& node, const Placed& x, std::size_t axis,
                             const Extents& sizes) {
  const Placed whole = importer.with_axis(node, x, axis);
  const std::vector<Value> values =
      split(importer.graph(), importer.op_name(node), whole.value, {.axis = whole.axes[axis], .sizes = sizes});
  std::vector<Placed> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back(with_value(whole, values[i]));
    parts.back().shape[axis] = sizes[i];
  }
  return parts;
}

/// The sizes of the parts if each part except the last one has `each` elements.
Extents equal_sizes(Importer& importer, const OnnxNode& node, std::int64_t extent, std::int64_t each) {
  constexpr std::int64_t most = 10'000;
  if (extent / each > most) importer.refuse(node, "has too many parts");
  Extents sizes;
  for (std::int64_t left = extent; left > 0; left -= each) sizes.push_back(std::min(each, left));
  return sizes;
}

void add_split(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::size_t axis = importer.axis(node, node.integer("axis", 0), x);
  Extents sizes = importer.integers(node, 1, "split").value_or(Extents{});
  if (sizes.empty()) {
    const std::int64_t parts = node.integer("num_outputs", node.output_count());
    if (parts < 1) importer.refuse(node, "has no outputs");
    if (parts != node.output_count()) importer.refuse(node, "has another number of outputs than parts");
    sizes = equal_sizes(importer, node, x.shape[axis], (x.shape[axis] + parts - 1) / parts);
  }
  if (static_cast<int>(sizes.size()) != node.output_count())
    importer.refuse(node, "has another number of outputs than parts");
  std::vector<Placed> parts = parts_of(importer, node, x, axis, sizes);
  for (int i = 0; i < node.output_count(); ++i) {
    importer.set_output(node, std::move(parts[static_cast<std::size_t>(i)]), i);
  }
}

/// Divides the input like Split. A SequenceAt then reads one of the parts.
void add_split_to_sequence(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::size_t axis = importer.axis(node, node.integer("axis", 0), x);
  const OnnxConstant given = importer.constant(node, 1);
  if (given == nullptr && !node.input(1).empty()) importer.refuse(node, "needs constant sizes");
  Extents sizes = given ? given->integers : Extents{1};
  if (!given || given->shape.empty()) {
    if (sizes.size() != 1 || sizes[0] < 1) importer.refuse(node, "has an invalid size");
    sizes = equal_sizes(importer, node, x.shape[axis], sizes[0]);
  }
  std::vector<Placed> parts = parts_of(importer, node, x, axis, sizes);
  if (!given && node.integer("keepdims", 1) == 0) {
    for (Placed& part : parts) part = importer.without_axis(node, part, axis);
  }
  importer.sequences[node.output()] = std::move(parts);
}

void add_sequence_at(Importer& importer, const OnnxNode& node) {
  const auto parts = importer.sequences.find(node.input(0));
  const OnnxConstant place = importer.constant(node, 1);
  if (parts == importer.sequences.end() || place == nullptr || place->integers.size() != 1)
    importer.refuse(node, "needs the output of SplitToSequence and a constant place");
  const auto count = static_cast<std::int64_t>(parts->second.size());
  const std::int64_t given = place->integers[0], index = given < 0 ? given + count : given;
  if (index < 0 || index >= count) importer.refuse(node, "reads an element that its input lacks");
  importer.set_output(node, parts->second[static_cast<std::size_t>(index)]);
}

void add_concat(Importer& importer, const OnnxNode& node) {
  // Constants may come first, for example class tokens that a later node repeats for each sample.
  std::vector<Placed> parts;
  for (int i = 0; i < node.input_count(); ++i) parts.push_back(importer.input(node, i));
  if (parts.empty()) importer.refuse(node, "has no inputs");
  const auto has_batch = std::ranges::find_if(parts, [](const Placed& part) { return !part.lacks_batch(); });
  if (has_batch != parts.end()) {
    const Placed other = *has_batch;
    for (Placed& part : parts) part = importer.with_batch(node, part, other);
  }
  importer.set_output(node,
                      concatenated(importer, node, parts, importer.axis(node, node.integer("axis", 0), parts.front())));
}

constexpr Operator operators[] = {
    {"Concat", add_concat, true}, {"Pad", add_pad},           {"SequenceAt", add_sequence_at, true},
    {"Slice", add_slice, true},   {"Split", add_split, true}, {"SplitToSequence", add_split_to_sequence, true}};

}  // namespace

std::span<const Operator> part_operators() { return operators; }

}  // namespace carillon
