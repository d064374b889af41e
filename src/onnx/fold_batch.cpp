// Folds nodes whose constants depend on the batch size. The batch size is not known, and an array with a row for each
// sample would be large. Two kinds of arrays need little memory:
//
//   hollow arrays (OnnxArray::is_hollow) have a shape and no values. For example, exporters compute indices of all
//   elements of a value. Only the shape of these indices matters, because the import of ScatterND reads the nodes that
//   compute the indices.
//   arrays that repeat (OnnxArray::repeats_batch) have the values of one sample, with an axis 0 of extent 1 for the
//   batch. An example is position embeddings that the file computes for each sample.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "src/onnx/constant_folding.h"

namespace carillon {
namespace {

OnnxConstant hollow(Extents shape, bool has_floats) {
  OnnxArray array{.shape = std::move(shape), .has_floats = has_floats, .floats = {}, .integers = {}, .name = {}};
  array.is_hollow = true;
  return std::make_shared<const OnnxArray>(std::move(array));
}

/// Returns the shape of the output if nodes of this type may compute hollow arrays; otherwise returns nullopt.
std::optional<Extents> shape_of_output(const Folded& f) {
  const std::string_view type = f.node.type();
  if (type == "Add" || type == "Sub" || type == "Mul") return broadcast_shape_of(f, f.input(0).shape, f.input(1).shape);
  if (type == "Expand" && !f.input(1).is_hollow) return broadcast_shape_of(f, f.input(0).shape, f.integers_of(1));
  if (type == "Unsqueeze") return unsqueezed_shape(f);
  if (type == "Concat") {
    Extents shape = f.input(0).shape;
    const std::size_t axis = f.axis(f.node.integer("axis", 0), shape.size());
    shape[axis] = 0;
    for (std::size_t i = 0; i < f.inputs.size(); ++i) {
      if (f.input(i).shape.size() != shape.size()) f.refuse("has inputs of different shapes");
      shape[axis] += f.input(i).shape[axis];
    }
    return shape;
  }
  return std::nullopt;
}

/// True if the node treats axis 0 like the other axes. Such a node cannot read an array that has the values of only one
/// sample.
bool needs_all_samples(const Folded& f) {
  const std::string_view type = f.node.type();
  const auto is_first = [&](std::int64_t axis) { return f.axis(axis, f.input(0).shape.size()) == 0; };
  if (type == "Transpose") {
    const Extents order = f.node.integers("perm");
    return order.empty() || order[0] != 0;
  }
  if (type == "CumSum") return f.integers_of(1).size() != 1 || is_first(f.integers_of(1)[0]);
  if (type == "Gather" && (!f.input(0).repeats_batch || f.input(1).repeats_batch)) return true;
  if (type == "Gather" || type == "Concat") return is_first(f.node.integer("axis", 0));
  if (type == "Unsqueeze" || type == "Squeeze") {
    const Extents axes = f.integers(1, "axes").value_or(Extents{0});
    const std::size_t rank = f.input(0).shape.size() + (type == "Unsqueeze" ? axes.size() : 0);
    return std::ranges::any_of(axes, [&](std::int64_t axis) { return f.axis(axis, rank) == 0; });
  }
  constexpr std::string_view passes[] = {"Abs",      "Add",  "And",         "Cast",     "CastLike",
                                         "Ceil",     "Clip", "Cos",         "Div",      "Equal",
                                         "Erf",      "Exp",  "Floor",       "Greater",  "GreaterOrEqual",
                                         "Identity", "Less", "LessOrEqual", "Log",      "Max",
                                         "Min",      "Mod",  "Mul",         "Neg",      "Not",
                                         "Or",       "Pow",  "Reciprocal",  "Relu",     "Sigmoid",
                                         "Sign",     "Sin",  "Slice",       "Softplus", "Sqrt",
                                         "Sub",      "Tanh", "Where"};
  if (std::ranges::find(passes, type) == std::end(passes)) return true;
  std::size_t rank = 0;
  for (const OnnxConstant& one : f.inputs) rank = std::max(rank, one && one->repeats_batch ? one->shape.size() : 0);
  return type != "Slice" && std::ranges::any_of(f.inputs, [&](const OnnxConstant& one) {
           return one != nullptr && one->shape.size() > rank;
         });
}

}  // namespace

OnnxConstant fold_with_batch(const OnnxNode& node, std::span<const OnnxConstant> given, std::int64_t operator_set,
                             const OnnxFile& file) {
  std::vector<OnnxConstant> inputs(given.begin(), given.end());
  const auto any = [&](bool OnnxArray::*is) {
    return std::ranges::any_of(inputs, [&](const OnnxConstant& one) { return one != nullptr && (*one).*is; });
  };
  const Folded f{node, inputs, operator_set, file};
  const auto one_sample = [&](std::size_t i) {  // replaces the batch by 1 in the shape that input i states
    if (i >= inputs.size() || inputs[i] == nullptr || inputs[i]->integers.empty()) return;
    OnnxArray changed = *inputs[i];
    if (changed.integers[0] == batch_mark) changed.integers[0] = 1;
    inputs[i] = std::make_shared<const OnnxArray>(std::move(changed));
  };
  const auto repeating = [&] {
    auto result = std::make_shared<OnnxArray>(*fold(node, inputs, operator_set, file));
    if (result->shape.empty() || result->shape[0] != 1) f.refuse("does not keep the batch");
    result->repeats_batch = true;
    return result;
  };
  if (node.type() == "ConstantOfShape") {
    const bool repeats = f.has(0) && f.input(0).integers.size() > 1 && f.input(0).integers[0] == batch_mark;
    if (!repeats) return fold(node, inputs, operator_set, file);
    one_sample(0);
    return repeating();
  }
  if (any(&OnnxArray::repeats_batch)) {
    if (node.type() == "Shape") {
      OnnxArray known{.shape = f.input(0).shape, .has_floats = true, .floats = {}, .integers = {}, .name = {}};
      known.shape[0] = batch_mark;
      inputs[0] = std::make_shared<const OnnxArray>(std::move(known));
      return fold(node, inputs, operator_set, file);
    }
    const bool states_shape = node.type() == "Reshape" || node.type() == "Expand";
    if (states_shape) one_sample(1);
    if (!states_shape && needs_all_samples(f)) f.refuse("reads all samples of a constant, which is not supported");
    return repeating();
  }
  const bool reads_hollow = any(&OnnxArray::is_hollow);
  if (reads_hollow && node.type() == "Shape") return fold(node, inputs, operator_set, file);
  const std::optional<Extents> shape = shape_of_output(f);
  if (shape && (reads_hollow || f.is_too_large(*shape))) return hollow(*shape, f.input(0).has_floats);
  if (reads_hollow) f.refuse("reads a constant that is too large");
  return fold(node, inputs, operator_set, file);
}

}  // namespace carillon
