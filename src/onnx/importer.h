// Importer: adds the network of an ONNX file to a graph, node by node.
//
// Each value has a shape as in ONNX, and a permutation that maps its axes to the axes in memory. For example, the
// output of a convolution is [batch, channels, height, width] in the file and [batch, height, width, channels] in
// memory. A transposition only changes the permutation; memory is reordered only if an op needs another order.
//
// import_*.cpp have one function for each ONNX operator.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/graph/graph.h"
#include "carillon/models/network.h"
#include "kernels/gather/gather.h"
#include "src/core/text.h"
#include "src/onnx/constant_folding.h"
#include "src/onnx/onnx.h"
#include "src/onnx/onnx_file.h"

namespace carillon {

/// How the shape of a value in the file contains the batch.
enum class BatchInFile {
  separate,
  joined_with_next,      ///< the file joins the batch and the axis after it, for example images and their windows
  joined_with_previous,  ///< the file joins the batch and the axis before it, for example tokens and images
  absent,                ///< the file computes the value from arrays only, so the value is the same for each sample
};

/// A value of the network, with its shape in ONNX.
struct Placed {
  Value value;
  /// The shape in ONNX, except that the batch always has its own axis, with the extent batch_mark. If the batch is
  /// absent in the file, its axis is the first one.
  Extents shape;
  /// For each axis of `shape`: the corresponding axis of `value`. 0 is the batch. -1: the extent is 1 and `value` does
  /// not have the axis.
  std::vector<int> axes;
  BatchInFile batch = BatchInFile::separate;

  std::size_t rank() const { return shape.size(); }
  /// The number of axes in the file.
  std::size_t file_rank() const { return rank() - (batch == BatchInFile::separate ? 0 : 1); }
  bool merges_batch() const {
    return batch == BatchInFile::joined_with_next || batch == BatchInFile::joined_with_previous;
  }
  bool lacks_batch() const { return batch == BatchInFile::absent; }
  std::size_t batch_axis() const { return static_cast<std::size_t>(std::ranges::find(axes, 0) - axes.begin()); }
  /// True if `axes` has the batch. If the file joins the batch and another axis, `axes` must also have the other axis.
  bool has_batch() const {
    const std::size_t first = batch == BatchInFile::joined_with_previous ? 1 : 0,
                      last = rank() - (batch == BatchInFile::joined_with_next ? 1 : 0);
    return batch_axis() >= first && batch_axis() < last;
  }
  /// The first of the two axes that the file joins.
  std::size_t joined_axis() const { return batch_axis() - (batch == BatchInFile::joined_with_previous ? 1 : 0); }
  /// Converts an axis in the file to an axis of `shape`. Converts the joined axis to the batch.
  std::size_t own_axis(std::size_t in_file) const {
    if (merges_batch() && in_file == joined_axis()) return batch_axis();
    return in_file + (lacks_batch() || (merges_batch() && in_file > joined_axis()) ? 1 : 0);
  }
  /// The shape in the file.
  std::vector<std::int64_t> file_shape() const;
  bool is_batch(std::size_t axis) const { return axes[axis] == 0; }
  /// True if both values have the batch on the same axis in the file, alone or joined with the same neighbour.
  bool has_batch_of(const Placed& other) const { return batch == other.batch && batch_axis() == other.batch_axis(); }
};

/// Returns the axes of `placed` that exist in memory, in memory order.
std::vector<int> stored_order(const Placed& placed);
/// Returns the axis of the batch, and then the other axes in their ONNX order.
std::vector<int> natural_order(const Placed& placed);
/// True if each index is the previous index plus 1.
bool are_consecutive(const Extents& indices);
/// Returns 0, 1, ..., count - 1.
std::vector<int> ascending(std::size_t count);
/// The order in memory of the axes of an image [batch, channels, height, width]: channels are last.
inline const std::vector<int> image_order{0, 2, 3, 1};
inline constexpr int channel_axis = 1;
/// Returns the initial weights of a layer in which each unit has `count` inputs.
Initializer fan_in(std::int64_t count);
/// Returns `placed` with another value.
inline Placed with_value(Placed placed, Value value) {
  placed.value = value;
  return placed;
}

/// The ONNX file. All networks that are made from the file share this object.
struct Source {
  Source(const std::filesystem::path& path, OnnxOptions given) : file(path), options(std::move(given)) {
    for (std::size_t i = 0; i < file.nodes().size(); ++i) {
      const OnnxNode& node = file.nodes()[i];
      for (int k = 0; k < node.input_count(); ++k) readers[node.input(k)].push_back(i);
      for (int k = 0; k < node.output_count(); ++k) {
        const bool is_first = node.output(k).empty() || producers.emplace(node.output(k), i).second;
        if (!is_first) fail(ExitCode::data, "{}: two nodes compute '{}'", path.string(), printable(node.output(k)));
      }
    }
  }

  /// Whether the input is [batch, height, width, channels], not [batch, channels, height, width].
  bool has_channels_last() const {
    const auto are_channels = [](std::int64_t extent) { return extent == 1 || extent == 3; };
    const std::vector<std::int64_t>& shape = file.input_shape();
    return shape.size() == 4 && !are_channels(shape[1]) && are_channels(shape[3]);
  }
  /// The node that computes the value; null if there is none.
  const OnnxNode* producer(const std::string& value) const {
    const auto found = producers.find(value);
    return found == producers.end() ? nullptr : &file.nodes()[found->second];
  }

  OnnxFile file;
  OnnxOptions options;
  std::map<std::string, std::vector<std::size_t>> readers;
  std::map<std::string, std::size_t> producers;
};

/// How a variable stores an array of the file.
struct Stored {
  std::string order;                           ///< a name for the order of the values in memory; empty: the order in
                                               ///< the file
  std::function<std::vector<float>()> values;  ///< returns the values in this order; null: the values of the array
  bool keeps_name = true;                      ///< exports write the variable with the array's name
};

class Importer;

/// Adds the ops that compute the node.
using AddOps = void (*)(Importer& importer, const OnnxNode& node);
struct Operator {
  std::string_view type;
  AddOps add;
  bool reads_parameters = false;  ///< the function accepts values without the batch (BatchInFile::absent)
};
/// The operators that each import_*.cpp imports.
std::span<const Operator> arithmetic_operators();
std::span<const Operator> convolution_operators();
std::span<const Operator> gather_operators();
std::span<const Operator> norm_operators();
std::span<const Operator> part_operators();
std::span<const Operator> pool_operators();
std::span<const Operator> product_operators();
std::span<const Operator> reduction_operators();
std::span<const Operator> resize_operators();
std::span<const Operator> shape_operators();

/// Adds an op that computes the largest element over the axes of `reduces`. Keeps these axes with extent 1.
Placed max_over(Importer& importer, const OnnxNode& node, const Placed& x, const std::vector<bool>& reduces);
/// Adds a gather along `axis`. `params`: the other parameters of the gather.
Placed gathered_axis(Importer& importer, const OnnxNode& node, const Placed& x, std::size_t axis, GatherParams params);
/// Joins values along an axis.
Placed concatenated(Importer& importer, const OnnxNode& node, std::span<const Placed> parts, std::size_t axis);
/// Keeps `count` elements of an axis: the element `first`, and then every `step`th element.
Placed part_of(Importer& importer, const OnnxNode& node, const Placed& x, std::size_t axis, std::int64_t first,
               std::int64_t count, std::int64_t step);

/// Adds the network of a file to a graph.
class Importer {
 public:
  Importer(const Source& source, const NetworkSettings& settings, Graph& graph)
      : source_(source), settings_(settings), graph_(graph), constants_(source.file.constants()) {}

  Value run();
  /// Whether the node repeats a constant for each sample.
  bool repeats_for_samples(const OnnxNode& node) const {
    const OnnxConstant shape = node.type() == "Expand" ? constant(node, 1) : nullptr, values = constant(node, 0);
    if (shape == nullptr || values == nullptr || !values->has_floats || shape->integers.empty()) return false;
    const bool adds_samples = batch_of_file() > 1 && shape->integers[0] == batch_of_file() &&
                              values->shape.size() == shape->integers.size() && values->shape[0] == 1;
    return shape->integers[0] == batch_mark || adds_samples;
  }
  /// The number of samples for which the file was exported; -1: any number.
  std::int64_t batch_of_file() const {
    return source_.file.input_shape().empty() ? -1 : source_.file.input_shape().front();
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
  /// Input `i` as a constant; null if the input is missing, not a constant or hollow.
  OnnxConstant constant(const OnnxNode& node, int i) const {
    const OnnxConstant found = shaped_constant(node.input(i));
    return found == nullptr || found->is_hollow ? nullptr : found;
  }
  /// The constant with this name, which may be hollow; null if there is none.
  OnnxConstant shaped_constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
  }
  /// The node that computes input `i`; null if there is none.
  const OnnxNode* producer(const OnnxNode& node, int i) const { return source_.producer(node.input(i)); }
  /// Does the same as `constant`, but also finds the constant if its Constant node comes later in the file.
  OnnxConstant constant_or_node(const OnnxNode& node, int i) {
    if (OnnxConstant found = constant(node, i)) return found;
    const OnnxNode* const producer = source_.producer(node.input(i));
    if (producer == nullptr || producer->type() != "Constant") return nullptr;
    return constants_[producer->output()] = fold(*producer, {}, operator_set(), source_.file);
  }
  OnnxConstant floats(const OnnxNode& node, int i) const {
    OnnxConstant found = constant(node, i);
    if (found == nullptr || !found->has_floats) refuse(node, fmt::format("needs a constant array as input {}", i));
    return found;
  }
  /// The integers of input `i`, or of `attribute` if the input is missing: earlier operator sets have an attribute.
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
  /// Returns input `i`. If the operator reads parameters and the input is a constant, adds the constant as `parameter`
  /// does.
  const Placed& input(const OnnxNode& node, int i = 0);
  void set_output(const OnnxNode& node, Placed placed, int i = 0) {
    if (placed.rank() > max_axes) refuse(node, "has too many axes");
    if (!placed.has_batch()) refuse(node, "does not keep the batch");
    placed_[node.output(i)] = std::move(placed);
  }
  /// Counts `elements` that the import of a node reads or computes. Errors: data (the sum over all nodes is too large).
  void charge(const OnnxNode& node, std::int64_t elements) {
    elements_ += elements;
    if (elements_ > most_elements) refuse(node, "and earlier nodes read or compute too many elements");
  }
  void alias(const std::string& name, Placed placed) { placed_[name] = std::move(placed); }
  /// Converts an axis that may be negative to an axis from 0 to rank - 1.
  std::size_t axis(const OnnxNode& node, std::int64_t axis, std::size_t rank) const {
    const auto count = static_cast<std::int64_t>(rank);
    if (axis < -count || axis >= count) refuse(node, "has an axis that its input lacks");
    return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
  }

  /// Converts an axis in the file to an axis of x.shape. If a file for one image joins the batch and another axis, the
  /// joined axis has only elements of the image, and is converted to the other axis.
  std::size_t axis(const OnnxNode& node, std::int64_t number, const Placed& x) const {
    const std::size_t in_file = axis(node, number, x.file_rank());
    if (!x.merges_batch() || batch_of_file() != 1 || in_file != x.joined_axis()) return x.own_axis(in_file);
    return x.batch == BatchInFile::joined_with_next ? x.batch_axis() + 1 : x.batch_axis() - 1;
  }

  /// Returns the value with exactly these ONNX axes in memory, in this order.
  Value arranged(const OnnxNode& node, const Placed& placed, const std::vector<int>& order);
  Value natural(const OnnxNode& node, const Placed& placed) { return arranged(node, placed, natural_order(placed)); }
  /// Returns the value with `last` as the last axis in memory.
  Placed with_last(const OnnxNode& node, const Placed& x, int last);
  /// Returns the value with `axis`, which must not be the batch, in memory.
  Placed with_axis(const OnnxNode& node, const Placed& x, std::size_t axis) {
    if (x.is_batch(axis)) refuse(node, "does not keep the batch");
    return x.axes[axis] >= 0 ? x : placed(natural(node, x), x.shape, natural_order(x), x.batch);
  }
  /// Removes an axis of extent 1. In a file for one image, the file may join this axis and the batch. The batch is then
  /// joined with the next axis.
  Placed without_axis(const OnnxNode& node, const Placed& x, std::size_t axis);
  /// Returns the value with the new shape `shape` in the file.
  Placed reshaped(const OnnxNode& node, const Placed& x, const Extents& shape);
  /// Adds a constant array as a value of `rank` axes, with the order `order` in memory. The array's axes are matched
  /// from the last axis. Arrays of the file are trained.
  Placed variable(const OnnxNode& node, const OnnxArray& values, std::size_t rank, const std::vector<int>& order);
  /// Like `variable`, but the shape of the value is the axis of the batch and then the shape of the array in the file
  /// (BatchInFile::absent).
  Placed parameter(const OnnxNode& node, const OnnxArray& values);
  /// If the batch of `x` is absent in the file, returns `x` with the number of axes and the batch of `other`: axes in
  /// the file are matched from the last one.
  Placed with_batch(const OnnxNode& node, const Placed& x, const Placed& other);
  /// Repeats axes of extent 1. `shape`: the shape of the result, with x.rank() axes including the batch.
  Placed repeated(const OnnxNode& node, const Placed& x, const Extents& shape);
  /// If the product of `probabilities` and `v` ends an attention, adds the op attention and returns its result. The ops
  /// of the chain stay until run() removes ops that no op reads.
  std::optional<Placed> fused_attention(const OnnxNode& node, const Placed& probabilities, const Placed& v);
  /// Returns `value` with this ONNX shape; `order`: the order of the axes in memory.
  static Placed placed(Value value, Extents shape, const std::vector<int>& order,
                       BatchInFile batch = BatchInFile::separate) {
    Placed result{value, std::move(shape), {}, batch};
    result.axes.assign(result.shape.size(), -1);
    for (std::size_t i = 0; i < order.size(); ++i)
      result.axes[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    return result;
  }

  /// Returns a name that no other op has.
  std::string unique_name(std::string name);
  /// The name of an op without variables. If a node needs several ops, `part` distinguishes their names: "/scale".
  std::string op_name(const OnnxNode& node, std::string_view part = "") {
    return unique_name(stripped(node.name(), node.type()).append(part));
  }
  /// Returns the name of an op that has the weights `weights`.
  std::string layer_name(const OnnxNode& node, const OnnxArray& weights);
  /// Gives a variable of the next op the values of an array in the file, and records the array's name. With
  /// OnnxOptions::fresh_weights, records only the name. If an earlier op stores the same array in the same way, the ops
  /// share one variable, unless the array only repeats one number.
  void give(const std::string& variable, const OnnxArray& array, const Stored& stored = {});
  /// Does the same as `give` for a buffer. Ops never share buffers.
  void give_buffer(const std::string& buffer, const OnnxArray& array);

  /// The only node that reads the value. Null if none or several nodes read it, or if it is the network's output.
  const OnnxNode* sole_reader(const std::string& value) const;
  /// Marks `node` as done: the import of an earlier node has already added it.
  void skip(const OnnxNode& node) { skipped_.insert(node.output()); }
  bool is_head(const OnnxNode& node) const { return &node == head_; }
  /// By name of a value: the pads that a convolution adds, instead of the Pad node before the convolution. Order: top,
  /// left, bottom, right.
  std::map<std::string, Extents> pads_of_reader;
  /// Values with one row in the file, which a Tile repeats for each sample. In Carillon, these values have a row for
  /// each sample.
  std::set<std::string> one_row;
  /// By name of a value: the parts of a SplitToSequence.
  std::map<std::string, std::vector<Placed>> sequences;
  /// By name of a value: the number of groups of channels that the next node, an InstanceNormalization, normalises. The
  /// value has the shape before its Reshape into groups.
  std::map<std::string, std::int64_t> groups_of_reader;
  /// Returns the number of units of a layer that has `units` units in the file. Sets `is_new` if the two numbers of
  /// units differ. The layer then gets new values.
  std::int64_t units_of(const OnnxNode& node, std::int64_t units, const std::string& name, bool& is_new);

 private:
  /// Sets the initial values of a variable or buffer, and records its name in the file.
  void give_values(const std::string& name, const OnnxArray& array, const Stored& stored);
  static std::string stripped(std::string name, std::string_view type);
  void check_operators() const;
  /// Checks that all arrays of the file have the sizes of their variables and buffers.
  void check_given() const;
  void find_end();
  void find_needed();
  void note_folded_norms();
  void place_input();
  void add(const OnnxNode& node);
  void add_unchecked(const OnnxNode& node);
  /// Folds a node with constant inputs. Returns false if an op must compute the node.
  bool add_constant(const OnnxNode& node, std::span<const OnnxConstant> inputs);
  void place_constants(const OnnxNode& node);
  /// Whether the output has one row in the file if input 0 has one row.
  bool keeps_one_row(const OnnxNode& node) const;
  /// Adds a node of a drop path. Returns false for other nodes.
  bool add_draw(const OnnxNode& node);

  /// A random number for each sample. Exporters compute the mask of a drop path from it.
  struct Draw {
    std::optional<float> kept;  ///< probability that the mask is 1; nullopt: uniform numbers from 0 to 1
    bool is_mask = false;       ///< the value is 1 if the sample is kept, otherwise 0
    bool is_divided = false;    ///< the value is 1 / kept if the sample is kept, otherwise 0
  };
  std::map<std::string, Draw> draws_;
  const Source& source_;
  const NetworkSettings& settings_;
  Graph& graph_;
  std::map<std::string, OnnxConstant> constants_;
  std::map<std::string, Placed> placed_;
  std::set<std::string> names_, skipped_;
  std::map<std::string, int> name_counts_;  ///< by requested name: the last number that unique_name appended
  static constexpr std::int64_t most_elements = std::int64_t{1} << 31;
  std::int64_t elements_ = 0;  ///< see charge
  const OnnxNode* head_ = nullptr;
  std::set<const OnnxNode*> needed_;  ///< the nodes on which the output depends
  std::string end_;                   ///< the value that is the network's output
  std::vector<GivenValues> given_;
  std::map<std::string, std::string> original_names_;
  std::map<std::string, std::string> variables_;  ///< by order, name, shape and values of the array
  std::set<std::string> given_names_;
  std::map<std::string, Placed> parameters_;  ///< constants that `input` placed, by name
  bool reads_parameters_ = false;             ///< Operator::reads_parameters of the current node's operator
  std::vector<std::string> notes_;
};

}  // namespace carillon
