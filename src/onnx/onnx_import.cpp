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
#include "kernels/constant/constant.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/scale_input/scale_input.h"
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
  Extents shape;  ///< in ONNX; the first extent is batch_mark
  /// For each axis of `shape`, the axis of `value`; -1: the extent is 1 and `value` lacks the axis.
  std::vector<int> axes;

  std::size_t rank() const { return shape.size(); }
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
  /// `value` with the axes in this order.
  static Placed placed(Value value, Extents shape, const std::vector<int>& order) {
    Placed result{value, std::move(shape), {}};
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
  /// Units of a layer with `units` in the file; sets `is_new` if the layer gets new values for another number.
  std::int64_t units_of(const OnnxNode& node, std::int64_t units, const std::string& name, bool& is_new);

 private:
  static std::string stripped(std::string name, std::string_view type);
  void check_operators() const;
  void find_end();
  void place_input();
  void add(const OnnxNode& node);

  const Source& source_;
  const NetworkSettings& settings_;
  Graph& graph_;
  std::map<std::string, OnnxConstant> constants_;
  std::map<std::string, Placed> placed_;
  std::set<std::string> names_, skipped_;
  const OnnxNode* head_ = nullptr;
  std::string end_;  ///< the value that is the network's output
  std::vector<GivenValues> given_;
  std::map<std::string, std::string> original_names_;
  std::vector<std::string> notes_;
};

// Layout

Value Importer::arranged(const OnnxNode& node, const Placed& placed, const std::vector<int>& order) {
  std::vector<int> wanted;  // the stored axes in the wanted order
  for (const int axis : order) {
    if (placed.axes[static_cast<std::size_t>(axis)] >= 0) wanted.push_back(axis);
  }
  if (wanted != stored_order(placed)) refuse(node, "needs a transposition, which is not supported yet");
  if (wanted.size() != order.size()) refuse(node, "needs a reshape, which is not supported yet");
  return placed.value;
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
  original_names_[variable] = original.name.empty() || !is_line(original.name) ? variable : original.name;
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
    const bool adds_biases = node->type() == "Add" && source_.file.constants().contains(node->input(1));
    if (!only_ends(node->type()) && !adds_biases) node = nullptr;
    if (node != nullptr) node = source_.producer(node->input(0));
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
    const Extents& shape = input(node).shape;
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto limited = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t first = limited(node.integer("start", 0)), last = limited(node.integer("end", rank));
    constants_[node.output()] = constant_of({shape.begin() + first, shape.begin() + std::max(first, last)});
    return;
  }
  if (are_constant && can_fold(node.type())) {
    constants_[node.output()] = fold(node, inputs, operator_set(), source_.file);
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

Value Importer::run() {
  find_end();
  check_operators();
  place_input();
  for (const OnnxNode& node : source_.file.nodes()) {
    add(node);
    if (placed_.contains(end_)) break;  // the nodes after it turn it into probabilities
  }
  const auto output = placed_.find(end_);
  if (output == placed_.end()) {
    fail(ExitCode::data, "{}: no node computes the output '{}'", source_.file.path().string(), printable(end_));
  }
  return arranged(*source_.producer(end_), output->second, stored_order(output->second));
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
  bool is_square() const {
    return window[0] == window[1] && stride[0] == stride[1] && dilation == Extents{1, 1} && has_even_pads();
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
  return windows;
}

Windows square_of(Importer& importer, const OnnxNode& node, const Extents& window) {
  const Windows windows = windows_of(importer, node, window);
  if (windows.is_square()) return windows;
  importer.refuse(
      node,
      "has windows that are not square, dilated, or padded differently on both sides, which is not supported yet");
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

void add_conv(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const OnnxConstant weights = importer.floats(node, 1);
  if (x.rank() != 4 || weights->shape.size() != 4) importer.refuse(node, "is no convolution of images");
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
  const bool lacks_space = x.axes[2] < 0 && x.axes[3] < 0;
  if (is_point && lacks_space) {
    const Value value =
        dense(graph, name, x.value, {.units = units, .weights = initial, .biases = initial_biases, .l2_factor = l2});
    y = {value, {batch_mark, units, 1, 1}, {0, 1, -1, -1}};
  } else {
    const Windows windows = windows_of(importer, node, {weights->shape[2], weights->shape[3]});
    const Value images = importer.arranged(node, x, image_order);
    Value value;
    if (groups > 1 && groups == channels && filters == channels && windows.is_square()) {
      value = depthwise_conv2d(graph, name, images,
                               {.kernel = windows.window[0],
                                .stride = windows.stride[0],
                                .padding = windows.padding(),
                                .weights = initial,
                                .biases = initial_biases,
                                .l2_factor = l2});
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
  const Value value = dense(importer.graph(), name, importer.natural(node, x),
                            {.units = units,
                             .weights = fan_in(in),
                             .biases = biases ? std::optional(Initializer{}) : std::nullopt,
                             .l2_factor = importer.settings().regularization,
                             .per_position = per_position});
  if (!is_new) {
    importer.give(name + "/weights", weights, turned ? transposed(weights.floats, out, in) : weights.floats);
    if (biases) importer.give(name + "/biases", *biases);
  }
  Extents shape = x.shape;
  shape.back() = units;
  importer.alias(output, Importer::placed(value, std::move(shape), ascending(x.rank())));
}

void add_gemm(Importer& importer, const OnnxNode& node) {
  if (node.number("alpha", 1.0f) != 1.0f || node.number("beta", 1.0f) != 1.0f || node.integer("transA", 0) != 0) {
    importer.refuse(node, "has alpha, beta or transA, which is not supported");
  }
  const OnnxConstant biases = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  add_dense(importer, node, *importer.floats(node, 1), node.integer("transB", 0) != 0, biases, node.output());
}

void add_matmul(Importer& importer, const OnnxNode& node) {
  const OnnxConstant weights = importer.constant(node, 1);
  if (weights == nullptr) importer.refuse(node, "multiplies two computed values, which is not supported yet");
  const OnnxNode* const sum = importer.sole_reader(node.output());
  if (sum != nullptr && sum->type() == "Add") {
    for (const int i : {0, 1}) {
      const OnnxConstant biases = importer.constant(*sum, i);
      if (biases == nullptr || !biases->has_floats || biases->element_count() != weights->shape.back()) continue;
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
  importer.set_output(node, Importer::placed(value, x.shape, order));
}

void add_layer_norm(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (importer.axis(node, node.integer("axis", -1), x.rank()) + 1 != x.rank())
    importer.refuse(node, "normalises several axes, which is not supported");
  const OnnxConstant gamma = importer.floats(node, 1);
  const OnnxConstant beta = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  const std::string name = importer.layer_name(node, *gamma);
  const Value value =
      layer_norm(importer.graph(), name, importer.natural(node, x), {.epsilon = node.number("epsilon", 1e-5f)});
  importer.give(name + "/gamma", *gamma);
  if (beta) importer.give(name + "/beta", *beta);
  importer.set_output(node, Importer::placed(value, x.shape, ascending(x.rank())));
}

Placed images(Graph& graph, Value value) {
  const Shape& shape = graph.shape(value);
  return Importer::placed(value, {batch_mark, shape[3], shape[1], shape[2]}, image_order);
}

void check_pool(Importer& importer, const OnnxNode& node) {
  if (importer.input(node).rank() != 4) importer.refuse(node, "does not slide over images");
}

void add_max_pool(Importer& importer, const OnnxNode& node) {
  check_pool(importer, node);
  const Windows square = square_of(importer, node, node.integers("kernel_shape"));
  if (node.integer("ceil_mode", 0) != 0) importer.refuse(node, "has ceil_mode, which is not supported yet");
  const Value x = importer.arranged(node, importer.input(node), image_order);
  const Value y = max_pool(importer.graph(), importer.op_name(node), x,
                           {.window = square.window[0], .stride = square.stride[0], .padding = square.padding()});
  importer.set_output(node, images(importer.graph(), y));
}

void add_avg_pool(Importer& importer, const OnnxNode& node) {
  check_pool(importer, node);
  const Windows square = square_of(importer, node, node.integers("kernel_shape"));
  const bool pads = square.pads != Extents{0, 0, 0, 0};
  if (node.integer("ceil_mode", 0) != 0 || (pads && node.integer("count_include_pad", 0) != 0)) {
    importer.refuse(node, "has ceil_mode or count_include_pad, which is not supported yet");
  }
  const Value x = importer.arranged(node, importer.input(node), image_order);
  const Value y = avg_pool(importer.graph(), importer.op_name(node), x,
                           {.window = square.window[0], .stride = square.stride[0], .padding = square.padding()});
  importer.set_output(node, images(importer.graph(), y));
}

void add_global_avg_pool(Importer& importer, const OnnxNode& node) {
  check_pool(importer, node);
  const Placed& x = importer.input(node);
  const Value y = global_avg_pool(importer.graph(), importer.op_name(node), importer.arranged(node, x, image_order));
  importer.set_output(node, {y, {batch_mark, x.shape[1], 1, 1}, {0, 1, -1, -1}});
}

void add_reduce_mean(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  Extents axes;
  for (const std::int64_t axis : importer.integers(node, 1, "axes").value_or(Extents{})) {
    axes.push_back(static_cast<std::int64_t>(importer.axis(node, axis, x.rank())));
  }
  std::ranges::sort(axes);
  const bool keeps = node.integer("keepdims", 1) != 0;
  // The spatial axes: the two others are the batch and the last axis in memory.
  std::vector<int> order{0};
  for (const std::int64_t axis : axes) order.push_back(static_cast<int>(axis));
  int channels = -1;
  for (int axis = 1; axis < static_cast<int>(x.rank()); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) channels = axis;
  }
  if (x.rank() != 4 || axes.size() != 2 || channels < 0) importer.refuse(node, "over these axes is not supported yet");
  order.push_back(channels);
  const Value y = global_avg_pool(importer.graph(), importer.op_name(node), importer.arranged(node, x, order));
  if (!keeps) return importer.set_output(node, {y, {batch_mark, x.shape[static_cast<std::size_t>(channels)]}, {0, 1}});
  Placed kept{y, {batch_mark, 1, 1, 1}, {0, -1, -1, -1}};
  kept.shape[static_cast<std::size_t>(channels)] = x.shape[static_cast<std::size_t>(channels)];
  kept.axes[static_cast<std::size_t>(channels)] = 1;
  importer.set_output(node, std::move(kept));
}

/// Flattening costs nothing if at most one axis after the batch has several elements.
void add_flatten(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (node.integer("axis", 1) != 1) importer.refuse(node, "does not keep the batch");
  std::int64_t count = 1;
  for (std::size_t i = 1; i < x.rank(); ++i) count *= x.shape[i];
  if (importer.graph().shape(x.value).rank() == 2)
    return importer.set_output(node, {x.value, {batch_mark, count}, {0, 1}});
  importer.refuse(node, "needs a reshape, which is not supported yet");
}

void add_squeeze(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::optional<Extents> axes = importer.integers(node, 1, "axes");
  std::vector<bool> removes(x.rank(), !axes);
  if (axes) {
    for (const std::int64_t axis : *axes) removes[importer.axis(node, axis, x.rank())] = true;
  }
  Placed y{x.value, {}, {}};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (removes[i] && x.shape[i] == 1) {
      if (x.axes[i] >= 0) importer.refuse(node, "needs a reshape, which is not supported yet");
      continue;
    }
    y.shape.push_back(x.shape[i]);
    y.axes.push_back(x.axes[i]);
  }
  importer.set_output(node, std::move(y));
}

void add_unsqueeze(Importer& importer, const OnnxNode& node) {
  Placed y = importer.input(node);
  const Extents axes = importer.integers(node, 1, "axes").value_or(Extents{});
  std::vector<std::size_t> places;
  for (const std::int64_t axis : axes) places.push_back(importer.axis(node, axis, y.rank() + axes.size()));
  std::ranges::sort(places);
  for (const std::size_t place : places) {
    if (place == 0 || place > y.rank()) importer.refuse(node, "does not keep the batch");
    y.shape.insert(y.shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
    y.axes.insert(y.axes.begin() + static_cast<std::ptrdiff_t>(place), -1);
  }
  importer.set_output(node, std::move(y));
}

void add_transpose(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const Extents order = node.integers("perm");
  if (order.size() != x.rank() || order[0] != 0) importer.refuse(node, "does not keep the batch");
  Placed y{x.value, {}, {}};
  for (const std::int64_t axis : order) {
    const std::size_t from = importer.axis(node, axis, x.rank());
    y.shape.push_back(x.shape[from]);
    y.axes.push_back(x.axes[from]);
  }
  importer.set_output(node, std::move(y));
}

// Arithmetic

/// Both values with axes that broadcasting ops match.
struct Operands {
  Value a, b;
  std::vector<int> order;
  Extents shape;
};

Operands operands(Importer& importer, const OnnxNode& node) {
  const Placed &a = importer.input(node, 0), &b = importer.input(node, 1);
  if (a.rank() != b.rank()) importer.refuse(node, "has inputs with different numbers of axes, which is not supported");
  Operands both{a.value, b.value, {}, a.shape};
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
  const Operands both = operands(importer, node);
  const Value y = builder(importer.graph(), importer.op_name(node), both.a, both.b);
  importer.set_output(node, Importer::placed(y, both.shape, both.order));
}

/// The only number of a constant; nullopt: it has several elements.
std::optional<float> single(const OnnxConstant& constant) {
  if (constant == nullptr || !constant->has_floats || constant->floats.size() != 1) return std::nullopt;
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

void add_mul(Importer& importer, const OnnxNode& node) {
  if (importer.is_placed(node, 0) && importer.is_placed(node, 1)) return add_binary<multiply>(importer, node);
  const int constant_input = importer.is_placed(node, 0) ? 1 : 0;
  const OnnxConstant factor = importer.floats(node, constant_input);
  const Placed& x = importer.input(node, 1 - constant_input);
  if (const std::optional<float> number = single(factor)) {
    return importer.set_output(node, with_value(x, scale(importer.graph(), importer.op_name(node), x.value, *number)));
  }
  const std::optional<int> axis = axis_of(x, *factor);
  if (!axis || stored_order(x).back() != *axis)
    importer.refuse(node, "multiplies by an array of this shape, which is not supported yet");
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
  if (!number) importer.refuse(node, "adds an array, which is not supported yet");
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
  Operands both = operands(importer, node);
  both.b = scale(graph, importer.unique_name(name + "/negative"), both.b, -1.0f);
  importer.set_output(node, Importer::placed(add(graph, name, both.a, both.b), both.shape, both.order));
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
    const std::optional<float> factor = single(importer.constant(*half, half->input(0) == product->output() ? 1 : 0));
    // A constant that a later node gives is unknown here.
    return factor && *factor == 0.5f ? finish(*half) : false;
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
  importer.refuse(node, "divides by a computed value, which is not supported yet");
}

constexpr Operator operators[] = {{"Add", add_add},
                                  {"AveragePool", add_avg_pool},
                                  {"BatchNormalization", add_batch_norm},
                                  {"Cast", add_identity},
                                  {"Clip", add_clip},
                                  {"Conv", add_conv},
                                  {"Div", add_div},
                                  {"Dropout", add_dropout},
                                  {"Flatten", add_flatten},
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
                                  {"ReduceMean", add_reduce_mean},
                                  {"Relu", add_function<relu>},
                                  {"Sigmoid", add_sigmoid},
                                  {"Squeeze", add_squeeze},
                                  {"Sub", add_sub},
                                  {"Transpose", add_transpose},
                                  {"Unsqueeze", add_unsqueeze}};

const Operator* operator_of(std::string_view type) {
  const auto* const found = std::ranges::find(operators, type, &Operator::type);
  return found == std::end(operators) ? nullptr : found;
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
      const Value output = importer.run();
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
