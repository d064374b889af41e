#include "src/onnx/operator_table.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "kernels/broadcast/broadcast.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gather/gather.h"
#include "kernels/layout/layout.h"
#include "kernels/matmul/matmul.h"
#include "kernels/pool/pool.h"
#include "kernels/softmax/softmax.h"
#include "kernels/values/values.h"

namespace carillon {
namespace {

/// Converts an axis of Carillon's tensor of `rank` axes to ONNX's axis.
std::int64_t onnx_axis(std::size_t axis, std::size_t rank) {
  constexpr std::array<std::int64_t, 4> of_images{0, 2, 3, 1};
  return rank == 4 ? of_images.at(axis) : static_cast<std::int64_t>(axis);
}

/// Adds a conversion of a tensor with `rank` axes from ONNX's layout to Carillon's; to_onnx_layout adds the opposite
/// conversion.
std::string to_own_layout(OnnxWriter& writer, const std::string& x, std::size_t rank) {
  return rank == 4 ? to_channels_last(writer, x) : x;
}
std::string to_onnx_layout(OnnxWriter& writer, const std::string& x, std::size_t rank) {
  return rank == 4 ? to_channels_first(writer, x) : x;
}

/// Reorders numbers that belong to Carillon's axes into the order of ONNX's axes.
template <typename T>
std::vector<T> in_onnx_order(const std::vector<T>& by_axis) {
  std::vector<T> ordered = by_axis;
  for (std::size_t axis = 0; axis < by_axis.size(); ++axis) {
    ordered[static_cast<std::size_t>(onnx_axis(axis, by_axis.size()))] = by_axis[axis];
  }
  return ordered;
}

std::vector<std::string> write_split(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<SplitParams>(op.attributes);
  const std::int64_t axis = onnx_axis(split_axis(params, op.input), op.input.rank());
  return writer.add_with_outputs("Split", {op.inputs.at(0), writer.constant(params.sizes)}, {{"axis", axis}},
                                 params.sizes.size());
}

std::string write_concat(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<ConcatParams>(op.attributes);
  const std::size_t rank = op.input.rank(), axis = params.axis == -1 ? rank - 1 : static_cast<std::size_t>(params.axis);
  return writer.add("Concat", op.inputs, {{"axis", onnx_axis(axis, rank)}});
}

// Shapes

std::string write_reshape(OnnxWriter& writer, const ExportedOp& op) {
  Extents extents = op.output.extents();
  extents[0] = -1;  // the batch
  const std::string x = to_own_layout(writer, op.inputs.at(0), op.input.rank());
  return to_onnx_layout(writer, writer.add("Reshape", {x, writer.constant(extents)}), op.output.rank());
}

std::string write_transpose(OnnxWriter& writer, const ExportedOp& op) {
  Extents axes = params_of<TransposeParams>(op.attributes).axes;
  for (std::int64_t& axis : axes) axis = onnx_axis(static_cast<std::size_t>(axis), axes.size());
  return writer.add("Transpose", {op.inputs.at(0)}, {{"perm", in_onnx_order(axes)}});
}

std::string write_pad(OnnxWriter& writer, const ExportedOp& op) {
  auto params = params_of<PadParams>(op.attributes);
  params.before.insert(params.before.begin(), 0);  // the batch
  params.after.insert(params.after.begin(), 0);
  Extents pads = in_onnx_order(params.before);
  std::ranges::copy(in_onnx_order(params.after), std::back_inserter(pads));
  return writer.add("Pad", {op.inputs.at(0), writer.constant(pads), writer.constant({}, {params.value})});
}

std::string write_slice(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<SliceParams>(op.attributes);
  const std::int64_t axis = onnx_axis(slice_axis(params, op.input), op.input.rank());
  std::int64_t end = params.first + params.count * params.step;
  if (end < 0)
    end = -2 * max_attribute;  // before the first element; ONNX counts a negative end from the end of the axis
  return writer.add("Slice", {op.inputs.at(0), writer.constant(Extents{params.first}), writer.constant(Extents{end}),
                              writer.constant(Extents{axis}), writer.constant(Extents{params.step})});
}

/// Writes a Gather for each term, multiplies by the weights and adds. An index of -1 gets the weight 0.
std::string write_gather(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<GatherParams>(op.attributes);
  const std::int64_t axis = onnx_axis(gather_axis(params, op.input), op.input.rank());
  const bool has_weights = !params.weights.empty() || std::ranges::count(params.indices, -1) > 0;
  const auto terms = static_cast<std::size_t>(params.terms);
  std::string sum;
  for (std::size_t k = 0; k < terms; ++k) {
    Extents indices;
    std::vector<float> weights;
    for (std::size_t i = k; i < params.indices.size(); i += terms) {
      const bool exists = params.indices[i] >= 0;
      indices.push_back(exists ? params.indices[i] : 0);
      weights.push_back(!exists ? 0.0f : params.weights.empty() ? 1.0f : params.weights[i]);
    }
    std::string term = writer.add("Gather", {op.inputs.at(0), writer.constant(indices)}, {{"axis", axis}});
    if (has_weights) {
      Extents shape(op.input.rank() - static_cast<std::size_t>(axis), 1);
      shape[0] = static_cast<std::int64_t>(weights.size());
      term = writer.add("Mul", {term, writer.constant(shape, weights)});
    }
    sum = k == 0 ? term : writer.add("Add", {sum, term});
  }
  return sum;
}

std::string write_mean(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<MeanParams>(op.attributes);
  Extents axes;
  for (const std::size_t axis : mean_axes(params, op.input)) axes.push_back(static_cast<std::int64_t>(axis));
  const std::string x = to_own_layout(writer, op.inputs.at(0), op.input.rank());
  const std::string y = writer.add("ReduceMean", {x}, {{"axes", axes}, {"keepdims", std::int64_t{params.keeps_axes}}});
  return to_onnx_layout(writer, y, op.output.rank());
}

std::string write_softmax(OnnxWriter& writer, const ExportedOp& op) {
  return writer.add("Softmax", {op.inputs.at(0)}, {{"axis", onnx_axis(op.input.rank() - 1, op.input.rank())}});
}

std::string write_matmul(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<MatmulParams>(op.attributes);
  const std::size_t rank = op.output.rank();
  Extents exchanged;
  for (std::size_t axis = 0; axis < rank; ++axis) exchanged.push_back(static_cast<std::int64_t>(axis));
  std::swap(exchanged[rank - 2], exchanged[rank - 1]);
  const auto operand = [&](std::size_t number, bool transposed) {
    const std::string x = to_own_layout(writer, op.inputs.at(number), rank);
    return transposed ? writer.add("Transpose", {x}, {{"perm", exchanged}}) : x;
  };
  const std::string a = operand(0, params.transpose_a);
  return to_onnx_layout(writer, writer.add("MatMul", {a, operand(1, params.transpose_b)}), rank);
}

// Element by element

/// The name of an operator, as a template argument.
template <std::size_t size>
struct OperatorName {
  char text[size];
  constexpr OperatorName(const char (&name)[size]) { std::copy_n(name, size, text); }
};

/// Writes an operator that has one input and no attributes.
template <OperatorName type>
std::string write_unary(OnnxWriter& writer, const ExportedOp& op) {
  return writer.add(type.text, {op.inputs.at(0)});
}

std::string write_gelu(OnnxWriter& writer, const ExportedOp& op) {
  const std::string& x = op.inputs.at(0);
  const auto constant = [&](float value) { return writer.constant({}, {value}); };
  const std::string scaled = writer.add("Mul", {x, constant(static_cast<float>(1.0 / std::numbers::sqrt2))});
  const std::string twice = writer.add("Add", {writer.add("Erf", {scaled}), constant(1.0f)});
  return writer.add("Mul", {writer.add("Mul", {x, constant(0.5f)}), twice});
}

std::string write_silu(OnnxWriter& writer, const ExportedOp& op) {
  return writer.add("Mul", {op.inputs.at(0), writer.add("Sigmoid", {op.inputs.at(0)})});
}

std::string write_hard_sigmoid(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<HardSigmoidParams>(op.attributes);
  return writer.add("HardSigmoid", {op.inputs.at(0)}, {{"alpha", params.alpha}, {"beta", params.beta}});
}

std::string write_clip(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<ClipParams>(op.attributes);
  const std::string least = writer.constant({}, {params.least}), most = writer.constant({}, {params.most});
  return writer.add("Clip", {op.inputs.at(0), least, most});
}

std::string write_leaky_relu(OnnxWriter& writer, const ExportedOp& op) {
  return writer.add("LeakyRelu", {op.inputs.at(0)}, {{"alpha", params_of<LeakyReluParams>(op.attributes).slope}});
}

std::string write_shift(OnnxWriter& writer, const ExportedOp& op) {
  return writer.add("Add", {op.inputs.at(0), writer.constant({}, {params_of<ShiftParams>(op.attributes).amount})});
}

std::string write_scale(OnnxWriter& writer, const ExportedOp& op) {
  return writer.add("Mul", {op.inputs.at(0), writer.constant({}, {params_of<ScaleParams>(op.attributes).factor})});
}

/// Adds axes to an input of a broadcasting op, so that the input has as many axes as the output. ONNX matches all axes,
/// including the batch, from the last axis on. In ONNX's images, channels are first.
std::string aligned_input(OnnxWriter& writer, const ExportedOp& op, std::size_t number) {
  const Shape& shape = op.input_shapes.at(number);
  if (shape.rank() == op.output.rank()) return op.inputs.at(number);
  Extents extents{-1};  // the batch
  extents.resize(1 + op.output.rank() - shape.rank(), 1);
  extents.insert(extents.end(), shape.extents().begin() + 1, shape.extents().end());
  const std::string x = shape.rank() == 4 ? to_channels_last(writer, op.inputs.at(number)) : op.inputs.at(number);
  const std::string y = writer.add("Reshape", {x, writer.constant(extents)});
  return op.output.rank() == 4 ? to_channels_first(writer, y) : y;
}

std::string write_add(OnnxWriter& writer, const ExportedOp& op) {
  const std::string a = aligned_input(writer, op, 0);
  return writer.add("Add", {a, aligned_input(writer, op, 1)});
}

std::string write_multiply(OnnxWriter& writer, const ExportedOp& op) {
  const std::string a = aligned_input(writer, op, 0);
  return writer.add("Mul", {a, aligned_input(writer, op, 1)});
}

/// Adds the constant for one sample; ONNX broadcasts it over the batch.
std::string write_constant(OnnxWriter& writer, const ExportedOp& op) {
  std::vector<float> values = params_of<ConstantParams>(op.attributes).values;
  values.resize(static_cast<std::size_t>(op.output.elements_per_sample()), values.front());
  Extents extents = op.output.extents();
  extents[0] = 1;
  const std::string y = writer.constant(extents, values);
  return op.output.rank() == 4 ? to_channels_first(writer, y) : y;
}

/// Adds the values and repeats them for each sample of the batch, because a concatenation, unlike a sum, does not
/// broadcast.
std::string write_variable(OnnxWriter& writer, const ExportedOp& op) {
  Tensor values = op.parameters.at(0);
  Extents sample = op.output.extents();
  sample.erase(sample.begin());
  Extents one = sample;
  one.insert(one.begin(), 1);
  values.shape = Shape(one);
  const std::string shape = writer.add("Shape", {op.network_input});
  const std::string batch = writer.add(
      "Slice", {shape, writer.constant(Extents{0}), writer.constant(Extents{1}), writer.constant(Extents{0})});
  const std::string extents = writer.add("Concat", {batch, writer.constant(sample)}, {{"axis", std::int64_t{0}}});
  const std::string y = writer.add("Expand", {writer.constant(values), extents});
  return op.output.rank() == 4 ? to_channels_first(writer, y) : y;
}

constexpr ExportRow rows[] = {{&add_op, write_one<write_add>},
                              {&concat_op, write_one<write_concat>},
                              {&gather_op, write_one<write_gather>},
                              {&constant_op, write_one<write_constant>},
                              {&multiply_op, write_one<write_multiply>},
                              {&gelu_op, write_one<write_gelu>},
                              {&relu_op, write_one<write_unary<"Relu">>},
                              {&sigmoid_op, write_one<write_unary<"Sigmoid">>},
                              {&hard_sigmoid_op, write_one<write_hard_sigmoid>},
                              {&hard_swish_op, write_one<write_unary<"HardSwish">>},
                              {&clip_op, write_one<write_clip>},
                              {&leaky_relu_op, write_one<write_leaky_relu>},
                              {&tanh_op, write_one<write_unary<"Tanh">>},
                              {&exp_op, write_one<write_unary<"Exp">>},
                              {&sqrt_op, write_one<write_unary<"Sqrt">>},
                              {&reciprocal_op, write_one<write_unary<"Reciprocal">>},
                              {&erf_op, write_one<write_unary<"Erf">>},
                              {&shift_op, write_one<write_shift>},
                              {&scale_op, write_one<write_scale>},
                              {&silu_op, write_one<write_silu>},
                              {&split_op, write_split},
                              {&reshape_op, write_one<write_reshape>},
                              {&transpose_op, write_one<write_transpose>},
                              {&variable_op, write_one<write_variable>},
                              {&pad_op, write_one<write_pad>},
                              {&slice_op, write_one<write_slice>},
                              {&mean_op, write_one<write_mean>},
                              {&softmax_op, write_one<write_softmax>},
                              {&matmul_op, write_one<write_matmul>}};

}  // namespace

WriteOperators onnx_operators(const OpType& type) {
  for (const std::span<const ExportRow> table : {exported_layers(), std::span<const ExportRow>(rows)}) {
    const auto found = std::ranges::find(table, &type, &ExportRow::type);
    if (found != table.end()) return found->write;
  }
  return nullptr;
}

}  // namespace carillon
