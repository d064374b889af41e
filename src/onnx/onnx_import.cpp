#include "src/onnx/onnx_import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <set>

#include "carillon/core/error.h"
#include "kernels/avg_pool/avg_pool.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/concat/concat.h"
#include "kernels/constant/constant.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/matmul/matmul.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/mean/mean.h"
#include "kernels/pad/pad.h"
#include "kernels/reshape/reshape.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/scale_input/scale_input.h"
#include "kernels/softmax/softmax.h"
#include "kernels/split/split.h"
#include "kernels/transpose/transpose.h"
#include "kernels/variable/variable.h"
#include "src/core/text.h"
#include "src/models/imagenet_resnet.h"
#include "src/models/layers.h"
#include "src/onnx/constant_folding.h"
#include "src/onnx/onnx_file.h"

namespace carillon {
namespace {

using Extents = std::vector<std::int64_t>;

/// A value of the network with its shape in ONNX.
struct Placed {
  Value value;
  Extents shape;  ///< in ONNX; the extent of the batch is batch_mark
  /// For each axis of `shape`, the axis of `value`, 0 for the batch; -1: the extent is 1 and `value` lacks the axis.
  std::vector<int> axes;
  /// In the file, the batch and the next axis, for example the windows of an image, are one axis.
  bool merges_batch = false;

  std::size_t rank() const { return shape.size(); }
  std::size_t batch_axis() const { return static_cast<std::size_t>(std::ranges::find(axes, 0) - axes.begin()); }
  /// The axis of `shape` of an axis in the file.
  std::size_t own_axis(std::size_t in_file) const { return in_file + (merges_batch && in_file > batch_axis() ? 1 : 0); }
  bool is_batch(std::size_t axis) const { return axes[axis] == 0; }
};

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

constexpr int height_axis = 2, width_axis = 3, channel_axis = 1;  // of an ONNX image
const std::vector<int> image_order{0, height_axis, width_axis, channel_axis};

/// The file, shared by all networks that are made from it.
struct Source {
  Source(const std::filesystem::path& path, OnnxOptions given) : file(path), options(std::move(given)) {
    for (std::size_t i = 0; i < file.nodes().size(); ++i) {
      const OnnxNode& node = file.nodes()[i];
      for (int k = 0; k < node.input_count(); ++k) readers[node.input(k)].push_back(i);
      for (int k = 0; k < node.output_count(); ++k) producers.emplace(node.output(k), i);
    }
  }

  /// The node that computes the value; null: none.
  const OnnxNode* producer(const std::string& value) const {
    const auto found = producers.find(value);
    return found == producers.end() ? nullptr : &file.nodes()[found->second];
  }

  OnnxFile file;
  OnnxOptions options;
  std::map<std::string, std::vector<std::size_t>> readers;
  std::map<std::string, std::size_t> producers;
};

class Importer;

/// Adds the ops that compute the node.
using AddOps = void (*)(Importer& importer, const OnnxNode& node);
struct Operator {
  std::string_view type;
  AddOps add;
};
/// Null: no op computes this operator.
const Operator* operator_of(std::string_view type);

/// Adds the network of a file to a graph.
class Importer {
 public:
  Importer(const Source& source, const NetworkSettings& settings, Graph& graph)
      : source_(source), settings_(settings), graph_(graph), constants_(source.file.constants()) {}

  Value run();
  /// Whether the node repeats a constant for each sample.
  bool repeats_for_samples(const OnnxNode& node) const {
    const OnnxConstant shape = node.type() == "Expand" ? constant(node, 1) : nullptr, values = constant(node, 0);
    return shape != nullptr && values != nullptr && values->has_floats && !shape->integers.empty() &&
           shape->integers[0] == batch_mark;
  }
  const std::vector<GivenValues>& given() const { return given_; }
  const std::map<std::string, std::string>& original_names() const { return original_names_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // For operators.
  Graph& graph() { return graph_; }
  const NetworkSettings& settings() const { return settings_; }
  std::int64_t operator_set() const { return source_.file.operator_set(); }
  [[noreturn]] void refuse(const OnnxNode& node, std::string_view what) const {
    fail(ExitCode::data, "{}: the node '{}' ({}) {}", source_.file.path().string(), printable(node.name()),
         printable(node.type()), what);
  }
  /// Input `i` as a constant; null: it is missing or no constant.
  OnnxConstant constant(const OnnxNode& node, int i) const {
    const auto found = constants_.find(node.input(i));
    return found == constants_.end() ? nullptr : found->second;
  }
  /// As `constant`, also for an input whose Constant node comes later.
  OnnxConstant constant_or_node(const OnnxNode& node, int i) const {
    if (OnnxConstant found = constant(node, i)) return found;
    const OnnxNode* const producer = source_.producer(node.input(i));
    if (producer == nullptr || producer->type() != "Constant") return nullptr;
    return fold(*producer, {}, operator_set(), source_.file);
  }
  OnnxConstant floats(const OnnxNode& node, int i) const {
    OnnxConstant found = constant(node, i);
    if (found == nullptr || !found->has_floats) refuse(node, fmt::format("needs a constant array as input {}", i));
    return found;
  }
  /// Integers from input `i` or, in earlier operator sets, from the attribute.
  std::optional<Extents> integers(const OnnxNode& node, int i, std::string_view attribute) const {
    if (const OnnxConstant found = constant(node, i)) return found->integers;
    if (!node.input(i).empty()) refuse(node, fmt::format("needs a constant as input {}", i));
    return node.has(attribute) ? std::optional(node.integers(attribute)) : std::nullopt;
  }
  std::optional<float> number(const OnnxNode& node, int i, std::string_view attribute) const {
    if (const OnnxConstant found = constant(node, i)) {
      if (!found->has_floats || found->floats.size() != 1) refuse(node, fmt::format("needs a number as input {}", i));
      return found->floats[0];
    }
    return node.has(attribute) ? std::optional(node.number(attribute, 0.0f)) : std::nullopt;
  }
  bool is_placed(const OnnxNode& node, int i) const { return placed_.contains(node.input(i)); }
  const Placed& input(const OnnxNode& node, int i = 0) const {
    const auto found = placed_.find(node.input(i));
    if (found == placed_.end()) refuse(node, fmt::format("has a constant as input {}, which is not read", i));
    return found->second;
  }
  void set_output(const OnnxNode& node, Placed placed, int i = 0) { placed_[node.output(i)] = std::move(placed); }
  void alias(const std::string& name, Placed placed) { placed_[name] = std::move(placed); }
  std::size_t axis(const OnnxNode& node, std::int64_t axis, std::size_t rank) const {
    const auto count = static_cast<std::int64_t>(rank);
    if (axis < -count || axis >= count) refuse(node, "has an axis that its input lacks");
    return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
  }

  /// The value with exactly these ONNX axes, in this order, in memory.
  Value arranged(const OnnxNode& node, const Placed& placed, const std::vector<int>& order);
  Value natural(const OnnxNode& node, const Placed& placed) { return arranged(node, placed, ascending(placed.rank())); }
  /// The value with the axis `last` as the last one in memory.
  Placed with_last(const OnnxNode& node, const Placed& x, int last);
  /// The value without an axis of extent 1.
  Placed without_axis(const OnnxNode& node, const Placed& x, std::size_t axis);
  /// The value with another shape in ONNX, whose first extent is the batch.
  Placed reshaped(const OnnxNode& node, const Placed& x, const Extents& shape);
  /// A constant array as a value of `rank` axes, matched from the last one, in the order of memory `order`. It is
  /// trained if it is an array of the file.
  Placed variable(const OnnxNode& node, const OnnxArray& values, std::size_t rank, const std::vector<int>& order);
  /// The axis of x.shape of an axis in the file.
  std::size_t axis(const OnnxNode& node, std::int64_t number, const Placed& x) const {
    return x.own_axis(axis(node, number, x.rank() - (x.merges_batch ? 1 : 0)));
  }

  /// `value` with the axes in this order.
  static Placed placed(Value value, Extents shape, const std::vector<int>& order, bool merges_batch = false) {
    Placed result{value, std::move(shape), {}, merges_batch};
    result.axes.assign(result.shape.size(), -1);
    for (std::size_t i = 0; i < order.size(); ++i)
      result.axes[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    return result;
  }

  /// A name for an op that no other op has.
  std::string unique_name(std::string name);
  /// The name of an op without variables.
  std::string op_name(const OnnxNode& node) { return unique_name(stripped(node.name(), node.type())); }
  /// The name of an op whose weights are `weights`.
  std::string layer_name(const OnnxNode& node, const OnnxArray& weights);
  /// Gives a variable or buffer the values, unless they are to be drawn. `original`: its array in the file.
  void give(const std::string& variable, const OnnxArray& original, std::vector<float> values);
  /// As `give`, with the values as they are.
  void give(const std::string& variable, const OnnxArray& original) { give(variable, original, original.floats); }

  /// The only node that reads the value; null: several nodes or none, or the network's output.
  const OnnxNode* sole_reader(const std::string& value) const;
  /// The node has been taken over by an earlier one.
  void skip(const OnnxNode& node) { skipped_.insert(node.output()); }
  bool is_head(const OnnxNode& node) const { return &node == head_; }
  /// Pads that the only reader of a value, a convolution, adds: top, left, bottom, right.
  std::map<std::string, Extents> pads_of_reader;
  /// Units of a layer with `units` in the file; sets `is_new` if the layer gets new values for another number.
  std::int64_t units_of(const OnnxNode& node, std::int64_t units, const std::string& name, bool& is_new);

 private:
  static std::string stripped(std::string name, std::string_view type);
  void check_operators() const;
  /// Checks that all arrays of the file have the sizes of their variables and buffers.
  void check_given() const;
  void find_end();
  void place_input();
  void add(const OnnxNode& node);
  bool add_draw(const OnnxNode& node);

  /// A draw for each sample, of which exporters make the mask of a drop path.
  struct Draw {
    std::optional<float> kept;  ///< probability that the mask is 1; nullopt: uniform numbers from 0 to 1
    bool is_mask = false;       ///< it is 0 or, if kept, 1
    bool is_divided = false;    ///< it is 0 or, if kept, 1 / kept
  };
  std::map<std::string, Draw> draws_;
  const Source& source_;
  const NetworkSettings& settings_;
  Graph& graph_;
  std::map<std::string, OnnxConstant> constants_;
  std::map<std::string, Placed> placed_;
  std::set<std::string> names_, skipped_;
  std::int64_t folded_elements_ = 0;
  const OnnxNode* head_ = nullptr;
  std::string end_;  ///< the value that is the network's output
  std::vector<GivenValues> given_;
  std::map<std::string, std::string> original_names_;
  std::vector<std::string> notes_;
};

// Layout

Value Importer::arranged(const OnnxNode& node, const Placed& placed, const std::vector<int>& order) {
  const std::vector<int> stored = stored_order(placed);
  std::vector<int> wanted;  // the stored axes in the wanted order
  for (const int axis : order) {
    if (placed.axes[static_cast<std::size_t>(axis)] >= 0) wanted.push_back(axis);
  }
  check(wanted.size() == stored.size(), "a value loses an axis");
  Value value = placed.value;
  const std::string name = stripped(node.name(), node.type());
  if (wanted != stored) {
    std::vector<std::int64_t> axes;
    for (const int axis : wanted) axes.push_back(placed.axes[static_cast<std::size_t>(axis)]);
    value = transpose(graph_, unique_name(name + "/transpose"), value, {.axes = axes});
  }
  if (wanted.size() != order.size()) {
    Extents extents;
    for (std::size_t i = 1; i < order.size(); ++i) extents.push_back(placed.shape[static_cast<std::size_t>(order[i])]);
    value = reshape(graph_, unique_name(name + "/reshape"), value, {.extents = extents});
  }
  return value;
}

Placed Importer::with_last(const OnnxNode& node, const Placed& x, int last) {
  std::vector<int> order = stored_order(x);
  std::erase(order, last);
  order.push_back(last);
  return placed(arranged(node, x, order), x.shape, order, x.merges_batch);
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
  // Groups of neighbouring axes whose elements are those of a group of axes of the result. Axes of extent 1 belong to
  // no group.
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
  if (order.size() == 1) {  // one element: a value has an axis besides the batch
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
  original.is_derived = original.is_derived || arranged_values != values.floats;  // in another order than the file
  give(name + "/values", original, std::move(arranged_values));
  return result;
}

// Names

std::string Importer::stripped(std::string name, std::string_view type) {
  while (name.starts_with('/')) name.erase(0, 1);
  const std::string end = fmt::format("/{}", type);
  if (name.ends_with(end)) name.resize(name.size() - end.size());
  std::ranges::replace(name, ':', '_');
  if (!is_line(name)) name.clear();
  constexpr std::size_t most = 200;
  if (name.size() > most) name.resize(most);
  if (name.empty() || !is_line(name)) name = fmt::format("op/{}", is_line(type) ? type : "unnamed");
  return name;
}

std::string Importer::unique_name(std::string name) {
  if (name == NetworkDescription{}.input) name += "_op";
  std::string unique = name;
  for (int i = 2; !names_.insert(unique).second; ++i) unique = fmt::format("{}_{}", name, i);
  return unique;
}

std::string Importer::layer_name(const OnnxNode& node, const OnnxArray& weights) {
  const bool is_named = !weights.name.empty() && !weights.name.starts_with("onnx::") && weights.name != node.output();
  if (!is_named) return op_name(node);
  std::string name = weights.name;
  for (const std::string_view end : {".weight", "/weight", "/kernel", "_weight", ".W"}) {
    if (!name.ends_with(end)) continue;
    name.resize(name.size() - end.size());
    break;
  }
  std::ranges::replace(name, '.', '/');
  return unique_name(stripped(std::move(name), node.type()));
}

void Importer::give(const std::string& variable, const OnnxArray& original, std::vector<float> values) {
  const bool has_own_name = original.name.empty() || original.is_derived || !is_line(original.name);
  original_names_[variable] = has_own_name ? variable : original.name;
  if (!source_.options.fresh_weights) given_.push_back({variable, std::move(values)});
}

const OnnxNode* Importer::sole_reader(const std::string& value) const {
  const auto found = source_.readers.find(value);
  if (found == source_.readers.end() || found->second.size() != 1 || value == end_) return nullptr;
  return &source_.file.nodes()[found->second.front()];
}

std::int64_t Importer::units_of(const OnnxNode& node, std::int64_t units, const std::string& name, bool& is_new) {
  is_new = is_head(node) && settings_.outputs > 0 && settings_.outputs != units;
  if (!is_new) return units;
  notes_.push_back(fmt::format("{}: the layer {} gets new values: {} outputs in place of {}",
                               source_.file.path().string(), printable(name), settings_.outputs, units));
  return settings_.outputs;
}

// The graph

/// Whether each output of the node is one of its inputs, or a function of each element, after the last layer.
bool only_ends(std::string_view type) {
  return type == "Identity" || type == "Flatten" || type == "Reshape" || type == "Squeeze" || type == "Cast";
}
bool turns_into_probabilities(std::string_view type) {
  return type == "Softmax" || type == "Sigmoid" || type == "LogSoftmax";
}
bool is_layer(std::string_view type) { return type == "Gemm" || type == "MatMul" || type == "Conv"; }

void Importer::find_end() {
  end_ = source_.file.output();
  const OnnxNode* node = source_.producer(end_);
  // The loss computes the probabilities itself.
  if (node != nullptr && turns_into_probabilities(node->type())) {
    end_ = node->input(0);
    node = source_.producer(end_);
  }
  for (std::size_t steps = 0; node != nullptr && steps < source_.file.nodes().size(); ++steps) {
    if (is_layer(node->type())) break;
    const auto is_array = [&](int i) { return source_.file.constants().contains(node->input(i)); };
    const bool adds_biases = node->type() == "Add" && (is_array(0) || is_array(1));
    const bool leads_on = only_ends(node->type()) || adds_biases;
    node = leads_on ? source_.producer(node->input(adds_biases && is_array(0) ? 1 : 0)) : nullptr;
  }
  head_ = node;
  if (source_.options.head.empty()) return;
  head_ = nullptr;
  std::vector<std::string> layers;
  for (const OnnxNode& one : source_.file.nodes()) {
    if (!is_layer(one.type())) continue;
    const auto weights = source_.file.constants().find(one.input(1));
    std::string name = stripped(one.name(), one.type());
    if (weights != source_.file.constants().end()) {
      name = weights->second->name.substr(0, weights->second->name.rfind(".weight"));
    }
    layers.push_back(name);
    if (name == source_.options.head || one.name() == source_.options.head) head_ = &one;
  }
  if (head_ != nullptr) return;
  const std::size_t first = layers.size() > 10 ? layers.size() - 10 : 0;
  layers.erase(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(first));
  fail(ExitCode::usage, "--head {}: no layer of {} has this name; its last layers are {}", source_.options.head,
       source_.file.path().string(), printable(fmt::format("{}", fmt::join(layers, ", "))));
}

/// Names all nodes that depend on the images, with operators that no op computes.
void Importer::check_operators() const {
  std::set<std::string> variable{source_.file.input()};
  std::map<std::string, std::vector<std::string>> unsupported;
  for (const OnnxNode& node : source_.file.nodes()) {
    bool depends = false;
    for (int i = 0; i < node.input_count(); ++i) depends = depends || variable.contains(node.input(i));
    const bool draws = node.type().starts_with("Random") || node.type() == "Bernoulli";
    if ((!depends || node.type() == "Shape") && !draws) continue;
    for (int i = 0; i < node.output_count(); ++i) variable.insert(node.output(i));
    if (draws || (node.type() == "Floor" || node.type() == "Less")) continue;  // add_draw or add reports them
    if (operator_of(node.type()) == nullptr) unsupported[std::string(node.type())].push_back(node.name());
  }
  if (unsupported.empty()) return;
  std::vector<std::string> texts;
  for (const auto& [type, nodes] : unsupported) {
    texts.push_back(fmt::format("{} ({}node '{}')", type,
                                nodes.size() > 1 ? fmt::format("{} nodes, first ", nodes.size()) : "", nodes.front()));
  }
  fail(ExitCode::data, "{}: cannot be trained: no op computes the {} {}", source_.file.path().string(),
       texts.size() > 1 ? "operators" : "operator", printable(fmt::format("{}", fmt::join(texts, ", "))));
}

void Importer::place_input() {
  const ImageShape& image = settings_.image;
  const Extents& shape = source_.file.input_shape();
  if (shape.size() != 4) {
    fail(ExitCode::data, "{}: its input has {}, expected the 4 of [batch, channels, height, width]",
         source_.file.path().string(), count_text(shape.size(), "extent"));
  }
  const auto are_channels = [](std::int64_t extent) { return extent == 1 || extent == 3; };
  const bool channels_last = !are_channels(shape[1]) && are_channels(shape[3]);
  const std::int64_t channels = channels_last ? shape[3] : shape[1];
  if (channels > 0 && channels != image.channels) {
    fail(ExitCode::usage, "{}: is for images with {}; these images have {}", source_.file.path().string(),
         count_text(channels, "channel"), image.channels);
  }
  names_.insert("input");
  const Value value =
      image.channels == 3
          ? imagenet_input(graph_, settings_)
          : scale_input(graph_, "input",
                        {.sample = {image.height, image.width, image.channels}, .scale = settings_.pixel_scale});
  if (channels_last) {
    placed_[source_.file.input()] =
        placed(value, {batch_mark, image.height, image.width, image.channels}, ascending(4));
  } else {
    placed_[source_.file.input()] = placed(value, {batch_mark, image.channels, image.height, image.width}, image_order);
  }
}

void Importer::add(const OnnxNode& node) {
  if (skipped_.contains(node.output())) return;
  if (add_draw(node)) return;
  std::vector<OnnxConstant> inputs;
  bool are_constant = true;
  for (int i = 0; i < node.input_count(); ++i) {
    const std::string name = node.input(i);
    inputs.push_back(constant(node, i));
    if (name.empty() || inputs.back() != nullptr) continue;
    are_constant = false;
    if (!placed_.contains(name))
      refuse(node, fmt::format("reads '{}', which no node before it computes", printable(name)));
  }
  if (node.type() == "Shape" && !are_constant) {
    Extents shape = input(node).shape;
    if (input(node).merges_batch) {
      const std::size_t batch = input(node).batch_axis();
      shape[batch + 1] *= batch_mark;
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(batch));
    }
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto limited = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t first = limited(node.integer("start", 0)), last = limited(node.integer("end", rank));
    constants_[node.output()] = constant_of({shape.begin() + first, shape.begin() + std::max(first, last)});
    return;
  }
  if (are_constant && can_fold(node.type()) && !repeats_for_samples(node)) {
    constexpr std::int64_t most = std::int64_t{1} << 31;  // elements that all nodes read and compute
    const OnnxConstant folded = fold(node, inputs, operator_set(), source_.file);
    for (const OnnxConstant& one : inputs) folded_elements_ += one ? one->element_count() : 0;
    folded_elements_ += folded->element_count();
    if (folded_elements_ > most) refuse(node, "and earlier nodes compute too many constants");
    constants_[node.output()] = folded;
    return;
  }
  const Operator* const found = operator_of(node.type());
  if (found == nullptr) refuse(node, "has constant inputs, which is not read");
  try {
    found->add(*this, node);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(source_.file.path().string())) throw;
    refuse(node, fmt::format("cannot be trained: {}", error.what()));
  }
}

/// Adds a node of a drop path: floor(kept + uniform) or uniform < kept, perhaps divided by kept, times x. Returns false
/// for other nodes.
bool Importer::add_draw(const OnnxNode& node) {
  const std::string& y = node.output();
  if (node.type() == "RandomUniformLike" || node.type() == "RandomUniform") {
    const OnnxConstant like = node.type() == "RandomUniformLike" ? constant(node, 0) : nullptr;
    const Extents shape = like ? like->shape : node.integers("shape");
    if (shape.empty() || std::count(shape.begin() + 1, shape.end(), 1) + 1 != std::ssize(shape)) {
      refuse(node, "draws several numbers for each sample, which is not supported");
    }
    draws_[y] = {};
    return true;
  }
  const auto first = draws_.find(node.input(0)), second = draws_.find(node.input(1));
  if (first == draws_.end() && second == draws_.end()) return false;
  const bool is_first = first != draws_.end();
  const Draw draw = is_first ? first->second : second->second;
  const OnnxConstant other = constant(node, is_first ? 1 : 0);
  const std::optional<float> number =
      other && other->has_floats && other->floats.size() == 1 ? std::optional(other->floats[0]) : std::nullopt;
  if (node.type() == "Cast") {
    draws_[y] = draw;
  } else if (node.type() == "Floor" && draw.kept && !draw.is_divided) {
    draws_[y] = {.kept = draw.kept, .is_mask = true};
  } else if (node.type() == "Less" && number && !draw.kept) {
    draws_[y] = {.kept = is_first ? *number : 1.0f - *number, .is_mask = true};
  } else if (node.type() == "Add" && number && !draw.kept) {
    draws_[y] = {.kept = number};
  } else if (node.type() == "Div" && is_first && number && draw.kept == number) {
    draws_[y] = {.kept = number, .is_mask = draw.is_mask, .is_divided = true};
  } else if (node.type() == "Mul" && draw.is_mask && is_placed(node, is_first ? 1 : 0)) {
    const Placed x = input(node, is_first ? 1 : 0);
    Value value = drop_path(graph_, op_name(node), x.value, {.rate = 1.0f - *draw.kept});
    if (!draw.is_divided)
      value = scale(graph_, unique_name(stripped(node.name(), node.type()) + "/scale"), value, *draw.kept);
    Placed dropped = x;
    dropped.value = value;
    placed_[y] = std::move(dropped);
  } else {
    refuse(node, "uses random numbers in a way that is not supported");
  }
  return true;
}

void Importer::check_given() const {
  std::map<std::string, std::int64_t> counts;
  for (const ParameterSpec& spec : graph_.parameters()) counts[spec.name] = spec.shape.element_count();
  for (const BufferSpec& spec : graph_.buffers()) counts[spec.name] = spec.shape.element_count();
  for (const GivenValues& values : given_) {
    if (counts[values.variable] == static_cast<std::int64_t>(values.values.size())) continue;
    fail(ExitCode::data, "{}: the array '{}' has {} values, expected {}", source_.file.path().string(),
         printable(original_names_.at(values.variable)), values.values.size(), counts[values.variable]);
  }
}

Value Importer::run() {
  find_end();
  if (source_.producer(end_) == nullptr) {
    fail(ExitCode::data, "{}: no node computes the output '{}'", source_.file.path().string(), printable(end_));
  }
  check_operators();
  place_input();
  for (const OnnxNode& node : source_.file.nodes()) {
    add(node);
    if (placed_.contains(end_)) break;  // the nodes after it turn it into probabilities
  }
  check_given();
  const auto output = placed_.find(end_);
  if (output == placed_.end()) {
    fail(ExitCode::data, "{}: no node computes the output '{}'", source_.file.path().string(), printable(end_));
  }
  const Value value = arranged(*source_.producer(end_), output->second, stored_order(output->second));
  if (graph_.shape(value).rank() != 2) {
    fail(ExitCode::data, "{}: its output '{}' is not [batch, outputs]", source_.file.path().string(), printable(end_));
  }
  return value;
}

// Operators

Placed with_value(Placed placed, Value value) {
  placed.value = value;
  return placed;
}

template <Value (*builder)(Graph&, const std::string&, Value)>
void add_function(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  importer.set_output(node, with_value(x, builder(importer.graph(), importer.op_name(node), x.value)));
}

void add_identity(Importer& importer, const OnnxNode& node) { importer.set_output(node, importer.input(node)); }

void add_cast(Importer& importer, const OnnxNode& node) {
  const std::int64_t to = node.integer("to", 0);
  if (to != onnx::Tensor::FLOAT && to != onnx::Tensor::DOUBLE && to != onnx::Tensor::FLOAT16 &&
      to != onnx::Tensor::BFLOAT16) {
    importer.refuse(node, "turns computed numbers into integers, which is not supported");
  }
  importer.set_output(node, importer.input(node));
}

void add_dropout(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const float rate = importer.number(node, 1, "ratio").value_or(0.5f);
  if (rate == 0.0f) return importer.set_output(node, x);
  const Value y = dropout(importer.graph(), importer.op_name(node), x.value, {.rate = rate});
  importer.set_output(node, with_value(x, y));
}

/// A sigmoid whose only reader multiplies it by its input is a SiLU.
const OnnxNode* product_with_own_input(Importer& importer, const OnnxNode& node) {
  const OnnxNode* const reader = importer.sole_reader(node.output());
  if (reader == nullptr || reader->type() != "Mul") return nullptr;
  const std::string x = node.input(0);
  return reader->input(0) == x || reader->input(1) == x ? reader : nullptr;
}

void add_sigmoid(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (const OnnxNode* const product = product_with_own_input(importer, node)) {
    importer.skip(*product);
    const Value y = silu(importer.graph(), importer.op_name(*product), x.value);
    return importer.alias(product->output(), with_value(x, y));
  }
  importer.set_output(node, with_value(x, sigmoid(importer.graph(), importer.op_name(node), x.value)));
}

void add_hard_sigmoid(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const HardSigmoidParams params{.alpha = node.number("alpha", 0.2f), .beta = node.number("beta", 0.5f)};
  const bool is_sixth = std::abs(params.alpha - 1.0f / 6.0f) < 1e-5f && params.beta == 0.5f;
  const OnnxNode* const product = is_sixth ? product_with_own_input(importer, node) : nullptr;
  if (product != nullptr) {
    importer.skip(*product);
    const Value y = hard_swish(importer.graph(), importer.op_name(*product), x.value);
    return importer.alias(product->output(), with_value(x, y));
  }
  importer.set_output(node, with_value(x, hard_sigmoid(importer.graph(), importer.op_name(node), x.value, params)));
}

void add_leaky_relu(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const LeakyReluParams params{.slope = node.number("alpha", 0.01f)};
  importer.set_output(node, with_value(x, leaky_relu(importer.graph(), importer.op_name(node), x.value, params)));
}

void add_clip(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  constexpr float most = std::numeric_limits<float>::max();
  const float least = importer.number(node, 1, "min").value_or(-most),
              largest = importer.number(node, 2, "max").value_or(most);
  const std::string name = importer.op_name(node);
  const bool is_relu = least == 0.0f && largest >= most;
  const Value y = is_relu ? relu(importer.graph(), name, x.value)
                          : clip(importer.graph(), name, x.value, {.least = least, .most = largest});
  importer.set_output(node, with_value(x, y));
}

void add_gelu(Importer& importer, const OnnxNode& node) {
  if (node.text("approximate", "none") != "none") importer.refuse(node, "approximates GELU, which is not supported");
  add_function<gelu>(importer, node);
}

Initializer fan_in(std::int64_t count) { return fan_in_uniform(std::max<std::int64_t>(count, 1)); }

/// The attribute pads, with auto_pad resolved; nullopt: TensorFlow's "same".
std::optional<Extents> pads_of(Importer& importer, const OnnxNode& node) {
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER") return std::nullopt;
  if (automatic == "VALID") return Extents{0, 0, 0, 0};
  if (automatic != "NOTSET") importer.refuse(node, "has auto_pad " + printable(automatic) + ", which is not supported");
  const Extents pads = node.integers("pads", {0, 0, 0, 0});
  if (pads.size() != 4) importer.refuse(node, "does not slide over images");
  return pads;
}

/// How the windows of a node slide over images: height, then width.
struct Windows {
  Extents window, stride, dilation;
  Extents pads;  ///< top, left, bottom, right; empty: TensorFlow's "same"

  /// Whether Padding describes the pads.
  bool has_even_pads() const { return std::ranges::adjacent_find(pads, std::not_equal_to<>()) == pads.end(); }
  Padding padding() const { return pads.empty() ? Padding::same : Padding::symmetric(pads[0]); }
  bool suits_depthwise() const {
    const auto pads_less = [&](std::size_t i) { return pads[i] < window[i % 2]; };
    return dilation == Extents{1, 1} &&
           (pads.empty() || (pads_less(0) && pads_less(1) && pads_less(2) && pads_less(3)));
  }
  /// Sets the fields of the params of an op.
  template <typename Params>
  void set(Params& params) const {
    params.stride = stride[0];
    if (stride[1] != stride[0]) params.stride_width = stride[1];
    if (has_even_pads()) {
      params.padding = padding();
    } else {
      params.pads = pads;
    }
  }
};

Windows windows_of(Importer& importer, const OnnxNode& node, const Extents& window) {
  Windows windows{window, node.integers("strides", {1, 1}), node.integers("dilations", {1, 1}),
                  pads_of(importer, node).value_or(Extents{})};
  if (window.size() != 2 || windows.stride.size() != 2 || windows.dilation.size() != 2) {
    importer.refuse(node, "does not slide over images");
  }
  for (const Extents* const all : {&windows.window, &windows.stride, &windows.dilation}) {
    if (std::ranges::any_of(*all, [](std::int64_t one) { return one < 1 || one > max_attribute; })) {
      importer.refuse(node, "has a window, stride or dilation below 1");
    }
  }
  const auto more = importer.pads_of_reader.find(node.input(0));
  if (more != importer.pads_of_reader.end()) {
    if (windows.pads.empty()) importer.refuse(node, "is padded twice, which is not supported");
    for (std::size_t i = 0; i < 4; ++i) windows.pads[i] += more->second[i];
  }
  // The pads of a stride of 2, with an additional row and column at the end, are often TensorFlow's "same".
  const Extents& shape = importer.input(node).shape;
  if (!windows.pads.empty() && !windows.has_even_pads() && windows.dilation == Extents{1, 1}) {
    const SlidingWindow rows = slide(shape[2], window[0], windows.stride[0], Padding::same),
                        columns = slide(shape[3], window[1], windows.stride[1], Padding::same);
    if (windows.pads == Extents{rows.before, columns.before, rows.after, columns.after}) windows.pads.clear();
  }
  return windows;
}

/// Filters [out, in, height, width] as [height, width, in, out].
std::vector<float> filters_of(const OnnxArray& weights, std::int64_t out) {
  const Extents& shape = weights.shape;
  std::vector<float> values;
  values.reserve(weights.floats.size());
  const std::int64_t in = shape[1], area = shape[2] * shape[3];
  for (std::int64_t at = 0; at < area; ++at) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t o = 0; o < out; ++o)
        values.push_back(weights.floats[static_cast<std::size_t>((o * in + i) * area + at)]);
    }
  }
  return values;
}

/// A convolution along one axis: [batch, channels, length]. It is a convolution of images of width 1.
void add_conv_of_rows(Importer& importer, const OnnxNode& node, const OnnxConstant& weights) {
  const Placed& x = importer.input(node);
  if (weights->shape.size() != 3 || node.text("auto_pad", "NOTSET") != "NOTSET") {
    importer.refuse(node, "is no convolution of images or rows");
  }
  const Extents strides = node.integers("strides", {1}), pads = node.integers("pads", {0, 0}),
                dilations = node.integers("dilations", {1});
  if (strides.size() != 1 || pads.size() != 2 || dilations.size() != 1)
    importer.refuse(node, "does not slide over rows");
  const OnnxConstant biases = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  Graph& graph = importer.graph();
  const std::string name = importer.layer_name(node, *weights);
  const Value rows = importer.arranged(node, x, {0, 2, 1});
  const Value images =
      reshape(graph, importer.unique_name(name + "/images"), rows, {.extents = {x.shape[2], 1, x.shape[1]}});
  const Value y = conv2d(graph, name, images,
                         {.filters = weights->shape[0],
                          .kernel = weights->shape[2],
                          .stride = strides.at(0),
                          .weights = fan_in(weights->shape[1] * weights->shape[2]),
                          .biases = biases ? std::optional(Initializer{}) : std::nullopt,
                          .l2_factor = importer.settings().regularization,
                          .groups = node.integer("group", 1),
                          .dilation = dilations.at(0),
                          .kernel_width = 1,
                          .stride_width = 1,
                          .dilation_width = 1,
                          .pads = {pads.at(0), 0, pads.at(1), 0}});
  OnnxArray of_images = *weights;
  of_images.shape.push_back(1);
  importer.give(name + "/weights", *weights, filters_of(of_images, weights->shape[0]));
  if (biases) importer.give(name + "/biases", *biases);
  const std::int64_t length = graph.shape(y)[1];
  const Value back = reshape(graph, importer.unique_name(name + "/rows"), y, {.extents = {length, weights->shape[0]}});
  importer.set_output(node, Importer::placed(back, {batch_mark, weights->shape[0], length}, {0, 2, 1}));
}

void add_conv(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const OnnxConstant weights = importer.floats(node, 1);
  if (x.rank() == 3 && !x.merges_batch) return add_conv_of_rows(importer, node, weights);
  if (x.merges_batch || x.rank() != 4 || weights->shape.size() != 4)
    importer.refuse(node, "is no convolution of images");
  const OnnxConstant biases = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  const std::int64_t channels = x.shape[1], filters = weights->shape[0], groups = node.integer("group", 1);
  if (groups < 1 || weights->shape[1] * groups != channels)
    importer.refuse(node, "has filters for another number of channels");
  const std::string name = importer.layer_name(node, *weights);
  bool is_new = false;
  const std::int64_t units = importer.units_of(node, filters, name, is_new);
  const Initializer initial = fan_in(weights->shape[1] * weights->shape[2] * weights->shape[3]);
  const std::optional<Initializer> initial_biases = biases ? std::optional(Initializer{}) : std::nullopt;
  const float l2 = importer.settings().regularization;
  const bool is_point = weights->shape[2] == 1 && weights->shape[3] == 1 && groups == 1;
  Graph& graph = importer.graph();
  Placed y;
  const bool is_padded =
      importer.pads_of_reader.contains(node.input(0)) || node.integers("pads", {0, 0, 0, 0}) != Extents{0, 0, 0, 0};
  const bool lacks_space = x.axes[2] < 0 && x.axes[3] < 0 && !is_padded;
  if (is_point && lacks_space) {
    const Value value =
        dense(graph, name, x.value, {.units = units, .weights = initial, .biases = initial_biases, .l2_factor = l2});
    y = {value, {batch_mark, units, 1, 1}, {0, 1, -1, -1}};
  } else {
    const Windows windows = windows_of(importer, node, {weights->shape[2], weights->shape[3]});
    const Value images = importer.arranged(node, x, image_order);
    Value value;
    if (groups > 1 && groups == channels && filters == channels && windows.suits_depthwise()) {
      DepthwiseConv2dParams params{
          .kernel = windows.window[0], .weights = initial, .biases = initial_biases, .l2_factor = l2};
      windows.set(params);
      if (windows.window[1] != windows.window[0]) params.kernel_width = windows.window[1];
      value = depthwise_conv2d(graph, name, images, params);
    } else {
      Conv2dParams params{.filters = units,
                          .kernel = windows.window[0],
                          .weights = initial,
                          .biases = initial_biases,
                          .l2_factor = l2,
                          .groups = groups,
                          .dilation = windows.dilation[0]};
      windows.set(params);
      if (windows.window[1] != windows.window[0]) params.kernel_width = windows.window[1];
      if (windows.dilation[1] != windows.dilation[0]) params.dilation_width = windows.dilation[1];
      value = conv2d(graph, name, images, params);
    }
    const Shape& shape = graph.shape(value);
    y = Importer::placed(value, {batch_mark, shape[3], shape[1], shape[2]}, image_order);
  }
  if (!is_new) {
    importer.give(name + "/weights", *weights, filters_of(*weights, filters));
    if (biases) importer.give(name + "/biases", *biases);
  }
  importer.set_output(node, std::move(y));
}

/// [rows, columns] transposed.
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      result[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return result;
}

/// A layer of products with constant weights. `turned`: the weights are [out, in].
void add_dense(Importer& importer, const OnnxNode& node, const OnnxArray& weights, bool turned, OnnxConstant biases,
               const std::string& output) {
  const Placed x = importer.input(node);
  if (weights.shape.size() != 2) importer.refuse(node, "needs weights with two extents");
  const std::int64_t in = weights.shape[turned ? 1 : 0], out = weights.shape[turned ? 0 : 1];
  if (x.shape.back() != in) importer.refuse(node, "has weights for another number of inputs");
  if (biases && biases->element_count() != out) importer.refuse(node, "has biases that do not match its outputs");
  const std::string name = importer.layer_name(node, weights);
  bool is_new = false;
  const std::int64_t units = importer.units_of(node, out, name, is_new);
  const bool per_position = x.rank() > 2;
  const Placed rows = importer.with_last(node, x, static_cast<int>(x.rank()) - 1);
  const Value value = dense(importer.graph(), name, rows.value,
                            {.units = units,
                             .weights = fan_in(in),
                             .biases = biases ? std::optional(Initializer{}) : std::nullopt,
                             .l2_factor = importer.settings().regularization,
                             .per_position = per_position});
  if (!is_new) {
    importer.give(name + "/weights", weights, turned ? transposed(weights.floats, out, in) : weights.floats);
    if (biases) importer.give(name + "/biases", *biases);
  }
  Placed y = with_value(rows, value);
  y.shape.back() = units;
  importer.alias(output, std::move(y));
}

void add_gemm(Importer& importer, const OnnxNode& node) {
  if (node.number("alpha", 1.0f) != 1.0f || node.number("beta", 1.0f) != 1.0f || node.integer("transA", 0) != 0) {
    importer.refuse(node, "has alpha, beta or transA, which is not supported");
  }
  const OnnxConstant biases = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  add_dense(importer, node, *importer.floats(node, 1), node.integer("transB", 0) != 0, biases, node.output());
}

/// An operand of a product: the matrices of the last two axes, transposed or not.
Value matrices(Importer& importer, const OnnxNode& node, const Placed& x, bool& is_transposed) {
  std::vector<int> turned = ascending(x.rank());
  std::swap(turned[x.rank() - 1], turned[x.rank() - 2]);
  is_transposed = stored_order(x) == turned;
  return importer.arranged(node, x, is_transposed ? turned : ascending(x.rank()));
}

/// A product of two computed values.
void add_product(Importer& importer, const OnnxNode& node) {
  const Placed a = importer.input(node, 0), b = importer.input(node, 1);
  if (a.rank() != b.rank() || a.rank() < 3 || a.merges_batch != b.merges_batch ||
      !std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin())) {
    importer.refuse(node, "multiplies values of these shapes, which is not supported");
  }
  MatmulParams params;
  const Value first = matrices(importer, node, a, params.transpose_a);
  const Value second = matrices(importer, node, b, params.transpose_b);
  const Value y = matmul(importer.graph(), importer.op_name(node), first, second, params);
  Extents shape = a.shape;
  shape.back() = b.shape.back();
  importer.set_output(node, Importer::placed(y, std::move(shape), ascending(a.rank()), a.merges_batch));
}

void add_matmul(Importer& importer, const OnnxNode& node) {
  const OnnxConstant weights = importer.constant(node, 1);
  if (weights == nullptr) return add_product(importer, node);
  if (!weights->has_floats || weights->shape.size() != 2) importer.refuse(node, "needs weights with two extents");
  const OnnxNode* const sum = importer.sole_reader(node.output());
  if (sum != nullptr && sum->type() == "Add") {
    for (const int i : {0, 1}) {
      const OnnxConstant biases = importer.constant(*sum, i);
      const bool are_biases = biases != nullptr && biases->has_floats && !biases->shape.empty() &&
                              biases->element_count() == weights->shape.back() &&
                              biases->shape.back() == biases->element_count();
      if (!are_biases) continue;
      importer.skip(*sum);
      return add_dense(importer, node, *weights, false, biases, sum->output());
    }
  }
  add_dense(importer, node, *weights, false, nullptr, node.output());
}

void add_batch_norm(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const OnnxConstant gamma = importer.floats(node, 1), beta = importer.floats(node, 2), mean = importer.floats(node, 3),
                     variance = importer.floats(node, 4);
  if (x.merges_batch) importer.refuse(node, "normalises windows, which is not supported");
  std::vector<int> order;
  for (int axis = 0; axis < static_cast<int>(x.rank()); ++axis) {
    if (axis != channel_axis && x.axes[static_cast<std::size_t>(axis)] >= 0) order.push_back(axis);
  }
  order.push_back(channel_axis);
  const std::string name = importer.layer_name(node, *gamma);
  // ONNX's momentum is the share of the old value; 1 - 0.9f is not 0.1f.
  const double momentum = std::round((1.0 - static_cast<double>(node.number("momentum", 0.9f))) * 1e6) / 1e6;
  const Value value = batch_norm(importer.graph(), name, importer.arranged(node, x, order),
                                 {.epsilon = node.number("epsilon", 1e-5f), .momentum = static_cast<float>(momentum)});
  importer.give(name + "/gamma", *gamma);
  importer.give(name + "/beta", *beta);
  importer.give(name + "/moving_mean", *mean);
  importer.give(name + "/moving_variance", *variance);
  importer.set_output(node, Importer::placed(value, x.shape, order, x.merges_batch));
}

void add_layer_norm(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (importer.axis(node, node.integer("axis", -1), x) + 1 != x.rank())
    importer.refuse(node, "normalises several axes, which is not supported");
  const OnnxConstant gamma = importer.floats(node, 1);
  const OnnxConstant beta = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  const std::string name = importer.layer_name(node, *gamma);
  const Placed rows = importer.with_last(node, x, static_cast<int>(x.rank()) - 1);
  const Value value = layer_norm(importer.graph(), name, rows.value, {.epsilon = node.number("epsilon", 1e-5f)});
  importer.give(name + "/gamma", *gamma);
  if (beta) importer.give(name + "/beta", *beta);
  importer.set_output(node, with_value(rows, value));
}

Placed images(Graph& graph, Value value) {
  const Shape& shape = graph.shape(value);
  return Importer::placed(value, {batch_mark, shape[3], shape[1], shape[2]}, image_order);
}

void check_pool(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (x.rank() != 4 || x.merges_batch) importer.refuse(node, "does not slide over images");
}

/// The windows of a pool. With ceil_mode, the last windows may end outside the image: they are padded at the end.
Windows pool_windows(Importer& importer, const OnnxNode& node) {
  check_pool(importer, node);
  Windows windows = windows_of(importer, node, node.integers("kernel_shape"));
  if (windows.dilation != Extents{1, 1}) importer.refuse(node, "is dilated, which is not supported");
  if (node.integer("ceil_mode", 0) == 0 || windows.pads.empty()) return windows;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t extent = importer.input(node).shape[2 + i], stride = windows.stride[i];
    const std::int64_t left = extent + windows.pads[i] + windows.pads[2 + i] - windows.window[i];
    const std::int64_t more = (stride - left % stride) % stride;
    const std::int64_t last = (left + stride - 1) / stride * stride;  // start of the last window
    if (last < extent + windows.pads[i]) windows.pads[2 + i] += more;
  }
  return windows;
}

template <typename Params>
Params pool_params(const Windows& windows) {
  Params params;
  params.window = windows.window[0];
  if (windows.window[1] != windows.window[0]) params.window_width = windows.window[1];
  windows.set(params);
  return params;
}

void add_max_pool(Importer& importer, const OnnxNode& node) {
  const auto params = pool_params<MaxPoolParams>(pool_windows(importer, node));
  const Value x = importer.arranged(node, importer.input(node), image_order);
  importer.set_output(node, images(importer.graph(), max_pool(importer.graph(), importer.op_name(node), x, params)));
}

void add_avg_pool(Importer& importer, const OnnxNode& node) {
  const Windows windows = pool_windows(importer, node);
  auto params = pool_params<AvgPoolParams>(windows);
  params.counts_padding = node.integer("count_include_pad", 0) != 0;
  if (params.counts_padding && node.integer("ceil_mode", 0) != 0 &&
      windows.pads != node.integers("pads", {0, 0, 0, 0})) {
    importer.refuse(node, "has ceil_mode with count_include_pad, which is not supported");
  }
  if (windows.pads == Extents{0, 0, 0, 0}) params.counts_padding = false;
  const Value x = importer.arranged(node, importer.input(node), image_order);
  importer.set_output(node, images(importer.graph(), avg_pool(importer.graph(), importer.op_name(node), x, params)));
}

void add_global_avg_pool(Importer& importer, const OnnxNode& node) {
  check_pool(importer, node);
  const Placed& x = importer.input(node);
  const Value y = global_avg_pool(importer.graph(), importer.op_name(node), importer.arranged(node, x, image_order));
  importer.set_output(node, {y, {batch_mark, x.shape[1], 1, 1}, {0, 1, -1, -1}});
}

/// The mean over the axes that the node reduces; `count`: number of elements of a mean.
Placed mean_over(Importer& importer, const OnnxNode& node, Placed x, std::int64_t& count) {
  std::vector<bool> reduces(x.rank(), false);
  const std::optional<Extents> axes = importer.integers(node, 1, "axes");
  if (!axes) importer.refuse(node, "does not keep the batch");
  for (const std::int64_t axis : *axes) reduces[importer.axis(node, axis, x)] = true;
  Graph& graph = importer.graph();
  std::vector<std::int64_t> own;  // the axes in memory
  count = 1;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!reduces[i]) continue;
    if (x.is_batch(i)) importer.refuse(node, "does not keep the batch");
    count *= x.shape[i];
    if (x.axes[i] >= 0) own.push_back(x.axes[i]);
  }
  std::ranges::sort(own);
  const bool reduces_all = own.size() + 1 == graph.shape(x.value).rank();  // the mean keeps its axes
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

/// sqrt(sum of squares)
void add_reduce_l2(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  Graph& graph = importer.graph();
  std::int64_t count = 1;
  const Value squares = multiply(graph, importer.op_name(node), x.value, x.value);
  const Placed y = mean_over(importer, node, with_value(x, squares), count);
  const Value sum = scale(graph, importer.op_name(node), y.value, static_cast<float>(count));
  importer.set_output(node, with_value(y, sqrt(graph, importer.op_name(node), sum)));
}

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
  if (shape[0] == 1 && merged == 0 && known == all) shape[0] = batch_mark;  // exported for one sample
  if (shape[0] < batch_mark || shape[0] % batch_mark != 0) importer.refuse(node, "does not keep the batch");
  const std::int64_t windows = shape[0] / batch_mark;  // of each sample
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

/// Pads with zeros or, for negative extents, crops: `before` and `after` for each ONNX axis.
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
    return importer.set_output(node, x);  // the convolution pads
  }
  importer.set_output(node, padded(importer, node, x, before, after, value));
}

/// Keeps `count` elements of an axis from `first`, at distances of `step`.
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

/// Reads neighbouring elements of an axis, or one element.
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

void add_softmax(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::size_t axis = importer.axis(node, node.integer("axis", importer.operator_set() < 13 ? 1 : -1), x);
  if (importer.operator_set() < 13 && axis + 1 != x.rank())
    importer.refuse(node, "is over several axes, which is not supported");
  const Placed rows = importer.with_last(node, x, static_cast<int>(axis));
  importer.set_output(node, with_value(rows, softmax(importer.graph(), importer.op_name(node), rows.value)));
}

/// Repeats a constant for each sample, such as a class token.
void add_expand(Importer& importer, const OnnxNode& node) {
  const OnnxConstant values = importer.constant(node, 0);
  const OnnxConstant shape = importer.constant(node, 1);
  // Arithmetic repeats its inputs itself.
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

// Arithmetic

/// Both values with axes that broadcasting ops match.
struct Operands {
  Value a, b;
  std::vector<int> order;
  Extents shape;
  bool merges_batch = false;
};

Operands operands(Importer& importer, const OnnxNode& node, const Placed& a, const Placed& b) {
  if (a.rank() != b.rank()) importer.refuse(node, "has inputs with different numbers of axes, which is not supported");
  Operands both{a.value, b.value, {}, a.shape, a.merges_batch || b.merges_batch};
  for (std::size_t i = 0; i < a.rank(); ++i) {
    if (a.shape[i] != b.shape[i] && a.shape[i] != 1 && b.shape[i] != 1)
      importer.refuse(node, "has inputs of different shapes");
    both.shape[i] = std::max(a.shape[i], b.shape[i]);
  }
  const std::vector<int> order_a = stored_order(a), order_b = stored_order(b);
  const bool a_is_main = order_a.size() >= order_b.size();
  both.order = a_is_main ? order_a : order_b;
  const std::vector<int>& less = a_is_main ? order_b : order_a;
  // The axes after the batch are matched from the last one.
  const auto tail = static_cast<std::ptrdiff_t>(less.size()) - 1;
  if (tail > 0 && std::equal(less.begin() + 1, less.end(), both.order.end() - tail)) return both;
  Value& other = a_is_main ? both.b : both.a;
  other = importer.arranged(node, a_is_main ? b : a, both.order);
  return both;
}

template <Value (*builder)(Graph&, const std::string&, Value, Value)>
void add_binary(Importer& importer, const OnnxNode& node) {
  const Operands both = operands(importer, node, importer.input(node, 0), importer.input(node, 1));
  const Value y = builder(importer.graph(), importer.op_name(node), both.a, both.b);
  importer.set_output(node, Importer::placed(y, both.shape, both.order, both.merges_batch));
}

/// The only number of a constant; nullopt: it has several elements, or it is an array of the file, which is trained.
std::optional<float> single(const OnnxConstant& constant) {
  const bool is_number = constant != nullptr && constant->has_floats && constant->floats.size() == 1;
  if (!is_number || !constant->name.empty()) return std::nullopt;
  return constant->floats[0];
}

/// The axis of `x` whose extent the constant has, if all other extents of the constant are 1.
std::optional<int> axis_of(const Placed& x, const OnnxArray& constant) {
  const std::size_t rank = constant.shape.size();
  std::optional<int> axis;
  for (std::size_t i = 0; i < rank; ++i) {
    if (constant.shape[i] == 1) continue;
    if (axis || rank > x.rank()) return std::nullopt;
    axis = static_cast<int>(x.rank() - rank + i);
    if (x.shape[static_cast<std::size_t>(*axis)] != constant.shape[i]) return std::nullopt;
  }
  return axis;
}

/// A sum or product with a constant array.
template <Value (*builder)(Graph&, const std::string&, Value, Value)>
void add_with_array(Importer& importer, const OnnxNode& node, const Placed& x, const OnnxArray& values) {
  const Placed other = importer.variable(node, values, x.rank(), stored_order(x));
  const Operands both = operands(importer, node, x, other);
  const Value y = builder(importer.graph(), importer.op_name(node), both.a, both.b);
  importer.set_output(node, Importer::placed(y, both.shape, both.order, both.merges_batch));
}

void add_mul(Importer& importer, const OnnxNode& node) {
  if (importer.is_placed(node, 0) && importer.is_placed(node, 1)) return add_binary<multiply>(importer, node);
  const int constant_input = importer.is_placed(node, 0) ? 1 : 0;
  const OnnxConstant factor = importer.floats(node, constant_input);
  const Placed& x = importer.input(node, 1 - constant_input);
  if (const std::optional<float> number = single(factor)) {
    return importer.set_output(node, with_value(x, scale(importer.graph(), importer.op_name(node), x.value, *number)));
  }
  const std::optional<int> axis = axis_of(x, *factor);
  if (!axis || stored_order(x).back() != *axis || factor->name.empty())
    return add_with_array<multiply>(importer, node, x, *factor);
  const std::string name = importer.layer_name(node, *factor);
  const Value y = scale_channels(importer.graph(), name, x.value);
  importer.give(name + "/gamma", *factor);
  importer.set_output(node, with_value(x, y));
}

void add_add(Importer& importer, const OnnxNode& node) {
  if (importer.is_placed(node, 0) && importer.is_placed(node, 1)) return add_binary<add>(importer, node);
  const int constant_input = importer.is_placed(node, 0) ? 1 : 0;
  const OnnxConstant term = importer.floats(node, constant_input);
  const Placed& x = importer.input(node, 1 - constant_input);
  const std::optional<float> number = single(term);
  if (!number) return add_with_array<add>(importer, node, x, *term);
  importer.set_output(node, with_value(x, shift(importer.graph(), importer.op_name(node), x.value, *number)));
}

void add_sub(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node, importer.is_placed(node, 0) ? 0 : 1);
  const std::string name = importer.op_name(node);
  Graph& graph = importer.graph();
  if (const std::optional<float> number = single(importer.constant(node, 1))) {
    return importer.set_output(node, with_value(x, shift(graph, name, x.value, -*number)));
  }
  if (const std::optional<float> number = single(importer.constant(node, 0))) {
    const Value negative = scale(graph, importer.unique_name(name + "/negative"), x.value, -1.0f);
    return importer.set_output(node, with_value(x, shift(graph, name, negative, *number)));
  }
  if (const OnnxConstant term = importer.constant(node, 1)) {
    OnnxArray negative = *term;
    for (float& value : negative.floats) value = -value;
    negative.name.clear();
    return add_with_array<add>(importer, node, x, negative);
  }
  if (!importer.is_placed(node, 0)) importer.refuse(node, "subtracts from an array, which is not supported");
  Operands both = operands(importer, node, importer.input(node, 0), importer.input(node, 1));
  both.b = scale(graph, importer.unique_name(name + "/negative"), both.b, -1.0f);
  importer.set_output(node,
                      Importer::placed(add(graph, name, both.a, both.b), both.shape, both.order, both.merges_batch));
}

/// The node after `node` in a chain in which each value has one reader; null: it is not of this type.
const OnnxNode* next_in_chain(Importer& importer, const OnnxNode& node, std::string_view type) {
  const OnnxNode* const next = importer.sole_reader(node.output());
  return next != nullptr && next->type() == type ? next : nullptr;
}

/// x / sqrt(2) -> erf -> + 1 -> * x -> * 0.5 is a GELU. Returns false if the nodes after `node` compute something else.
bool add_written_out_gelu(Importer& importer, const OnnxNode& node) {
  const OnnxNode* const erf = next_in_chain(importer, node, "Erf");
  const OnnxNode* const sum = erf == nullptr ? nullptr : next_in_chain(importer, *erf, "Add");
  const OnnxNode* const product = sum == nullptr ? nullptr : next_in_chain(importer, *sum, "Mul");
  if (product == nullptr) return false;
  const auto other_number = [&](const OnnxNode& of, const OnnxNode& before) {
    return single(importer.constant_or_node(of, of.input(0) == before.output() ? 1 : 0));
  };
  if (other_number(*sum, *erf) != 1.0f) return false;
  const std::string x = node.input(0);
  const std::string other = product->input(product->input(0) == sum->output() ? 1 : 0);
  const Placed& placed = importer.input(node);
  const auto finish = [&](const OnnxNode& last) {
    for (const OnnxNode* const part : {erf, sum, product, &last}) importer.skip(*part);
    const Value y = gelu(importer.graph(), importer.op_name(last), placed.value);
    importer.alias(last.output(), with_value(placed, y));
    return true;
  };
  if (other == x) {
    const OnnxNode* const half = next_in_chain(importer, *product, "Mul");
    if (half == nullptr) return false;
    return other_number(*half, *product) == 0.5f ? finish(*half) : false;
  }
  return false;
}

void add_div(Importer& importer, const OnnxNode& node) {
  Graph& graph = importer.graph();
  if (const std::optional<float> number = single(importer.constant(node, 1))) {
    const Placed& x = importer.input(node);
    if (std::abs(*number - std::numbers::sqrt2_v<float>) < 1e-5f && add_written_out_gelu(importer, node)) return;
    return importer.set_output(node, with_value(x, scale(graph, importer.op_name(node), x.value, 1.0f / *number)));
  }
  if (const OnnxConstant divisor = importer.constant(node, 1)) {
    OnnxArray factors = *divisor;
    for (float& value : factors.floats) value = 1.0f / value;
    factors.name.clear();
    return add_with_array<multiply>(importer, node, importer.input(node), factors);
  }
  const Placed& divisor = importer.input(node, 1);
  const std::string name = importer.op_name(node);
  const Placed inverse =
      with_value(divisor, reciprocal(graph, importer.unique_name(name + "/reciprocal"), divisor.value));
  if (const std::optional<float> number = single(importer.constant(node, 0))) {
    return importer.set_output(node, with_value(inverse, scale(graph, name, inverse.value, *number)));
  }
  const Operands both = operands(importer, node, importer.input(node, 0), inverse);
  importer.set_output(
      node, Importer::placed(multiply(graph, name, both.a, both.b), both.shape, both.order, both.merges_batch));
}

void add_neg(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  importer.set_output(node, with_value(x, scale(importer.graph(), importer.op_name(node), x.value, -1.0f)));
}

void add_pow(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  Graph& graph = importer.graph();
  const std::optional<float> exponent = single(importer.constant(node, 1));
  if (exponent == 2.0f)
    return importer.set_output(node, with_value(x, multiply(graph, importer.op_name(node), x.value, x.value)));
  if (exponent == 0.5f) return importer.set_output(node, with_value(x, sqrt(graph, importer.op_name(node), x.value)));
  importer.refuse(node, "has another exponent than 2 or 0.5, which is not supported");
}

constexpr Operator operators[] = {{"Add", add_add},
                                  {"AveragePool", add_avg_pool},
                                  {"BatchNormalization", add_batch_norm},
                                  {"Cast", add_cast},
                                  {"CastLike", add_identity},
                                  {"Concat", add_concat},
                                  {"Clip", add_clip},
                                  {"Conv", add_conv},
                                  {"Div", add_div},
                                  {"Dropout", add_dropout},
                                  {"Erf", add_function<erf>},
                                  {"Exp", add_function<exp>},
                                  {"Expand", add_expand},
                                  {"Flatten", add_flatten},
                                  {"Gather", add_gather},
                                  {"Gelu", add_gelu},
                                  {"Gemm", add_gemm},
                                  {"GlobalAveragePool", add_global_avg_pool},
                                  {"HardSigmoid", add_hard_sigmoid},
                                  {"HardSwish", add_function<hard_swish>},
                                  {"Identity", add_identity},
                                  {"LayerNormalization", add_layer_norm},
                                  {"LeakyRelu", add_leaky_relu},
                                  {"MatMul", add_matmul},
                                  {"MaxPool", add_max_pool},
                                  {"Mul", add_mul},
                                  {"Neg", add_neg},
                                  {"Pad", add_pad},
                                  {"Pow", add_pow},
                                  {"Reciprocal", add_function<reciprocal>},
                                  {"ReduceL2", add_reduce_l2},
                                  {"ReduceMean", add_reduce_mean},
                                  {"ReduceSum", add_reduce_sum},
                                  {"Relu", add_function<relu>},
                                  {"Reshape", add_reshape},
                                  {"Sigmoid", add_sigmoid},
                                  {"Slice", add_slice},
                                  {"Softmax", add_softmax},
                                  {"Split", add_split},
                                  {"Sqrt", add_function<sqrt>},
                                  {"Squeeze", add_squeeze},
                                  {"Sub", add_sub},
                                  {"Tanh", add_function<tanh>},
                                  {"Transpose", add_transpose},
                                  {"Unsqueeze", add_unsqueeze}};

const Operator* operator_of(std::string_view type) {
  const auto* const found = std::ranges::find(operators, type, &Operator::type);
  return found == std::end(operators) ? nullptr : found;
}

/// As Importer::run. A file that cannot be used for images of other sizes than its own is not damaged.
Value run_for_images(const Source& source, const NetworkSettings& settings, Importer& importer) {
  const Extents& shape = source.file.input_shape();
  const auto differs = [&](std::size_t axis, std::int64_t extent) {
    return axis < shape.size() && shape[axis] > 0 && shape[axis] != extent;
  };
  try {
    return importer.run();
  } catch (const Error& error) {
    const bool has_own_size = differs(2, settings.image.height) || differs(3, settings.image.width);
    if (error.code() != ExitCode::data || !has_own_size) throw;
    fail(ExitCode::usage, "{} (the file is for images of {}x{}: --image-size {})", error.what(), shape[2], shape[3],
         shape[2]);
  }
}

}  // namespace

bool is_onnx_file(const std::string& name) { return name.ends_with(".onnx"); }

MakeNetwork onnx_network(const std::filesystem::path& path, const OnnxOptions& options) {
  const auto source = std::make_shared<const Source>(path, options);
  return [source](const NetworkSettings& settings) {
    std::vector<GivenValues> given;
    std::map<std::string, std::string> names;
    std::vector<std::string> notes;
    Network network = make_network(source->file.path().stem().string(), settings, [&](Graph& graph) {
      Importer importer(*source, settings, graph);
      const Value output = run_for_images(*source, settings, importer);
      given = importer.given();
      names = importer.original_names();
      notes = importer.notes();
      return output;
    });
    network.torch_names = std::move(names);
    network.given = std::make_shared<const std::vector<GivenValues>>(std::move(given));
    network.notes = std::move(notes);
    return network;
  };
}

}  // namespace carillon
