#include "src/onnx/operator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>

#include "carillon/core/error.h"
#include "kernels/attention/attention.h"
#include "kernels/avg_pool/avg_pool.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/cifar_distort/cifar_distort.h"
#include "kernels/concat/concat.h"
#include "kernels/constant/constant.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/lrn/lrn.h"
#include "kernels/matmul/matmul.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/mean/mean.h"
#include "kernels/normalize_images/normalize_images.h"
#include "kernels/pad/pad.h"
#include "kernels/reshape/reshape.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/scale_input/scale_input.h"
#include "kernels/softmax/softmax.h"
#include "kernels/split/split.h"
#include "kernels/tokens/tokens.h"
#include "kernels/transpose/transpose.h"
#include "kernels/variable/variable.h"

namespace carillon {
namespace {

std::string to_channels_last(OnnxWriter& writer, const std::string& x) {
  return writer.add("Transpose", {x}, {{"perm", Extents{0, 2, 3, 1}}});
}
std::string to_channels_first(OnnxWriter& writer, const std::string& x) {
  return writer.add("Transpose", {x}, {{"perm", Extents{0, 3, 1, 2}}});
}

// Input ops

std::string write_scale_input(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<ScaleInputParams>(op.attributes);
  return writer.add("Mul", {op.inputs.at(0), writer.constant({}, {params.scale})});
}

/// y = v * factor + offset, by channel.
std::string write_normalize_images(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<NormalizeImagesParams>(op.attributes);
  const std::int64_t channels = op.output[3];
  std::vector<float> factors, offsets;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    factors.push_back(static_cast<float>(1.0 / (255.0 * params.deviation[c])));
    offsets.push_back(static_cast<float>(-static_cast<double>(params.mean[c]) / params.deviation[c]));
  }
  const std::string scaled = writer.add("Mul", {op.inputs.at(0), writer.constant({1, channels, 1, 1}, factors)});
  return writer.add("Add", {scaled, writer.constant({1, channels, 1, 1}, offsets)});
}

std::string write_cifar_distort(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<CifarDistortParams>(op.attributes);
  const std::int64_t height = op.input[1], width = op.input[2];
  const std::int64_t top = (height - params.crop_height) / 2, left = (width - params.crop_width) / 2;
  const std::string begin = writer.constant(Extents{top, left});
  const std::string end = writer.constant(Extents{top + params.crop_height, left + params.crop_width});
  const std::string crop = writer.add("Slice", {op.inputs.at(0), begin, end, writer.constant(Extents{2, 3})});
  const auto mean = [&](const std::string& x) { return writer.add("ReduceMean", {x}, {{"axes", Extents{1, 2, 3}}}); };
  const std::string centred = writer.add("Sub", {crop, mean(crop)});
  const std::string deviation = writer.add("Sqrt", {mean(writer.add("Mul", {centred, centred}))});
  const auto count = static_cast<double>(op.output.elements_per_sample());
  const std::string least = writer.constant({}, {static_cast<float>(1.0 / std::sqrt(count))});
  return writer.add("Div", {centred, writer.add("Max", {deviation, least})});
}

// Layers

std::string write_dense(OnnxWriter& writer, const ExportedOp& op) {
  const bool has_images = op.input.rank() == 4, has_biases = op.parameters.size() > 1;
  std::string x = op.inputs.at(0);
  if (has_images) x = to_channels_last(writer, x);           // the rows of the weights have this order, too
  if (params_of<DenseParams>(op.attributes).per_position) {  // Gemm requires matrices
    x = writer.add("MatMul", {x, writer.constant(op.parameters.at(0))});
    if (has_biases) x = writer.add("Add", {x, writer.constant(op.parameters[1])});
    return has_images ? to_channels_first(writer, x) : x;
  }
  if (op.input.rank() != 2) x = writer.add("Flatten", {x});
  std::vector<std::string> inputs{x, writer.constant(op.parameters.at(0))};
  if (has_biases) inputs.push_back(writer.constant(op.parameters[1]));
  return writer.add(has_biases ? "Gemm" : "MatMul", std::move(inputs));
}

/// The window attributes of Conv, MaxPool and AveragePool. `dilations` and `group` are written only if they are not 1.
std::vector<OnnxAttribute> window_attributes(const ImageWindows& windows, std::int64_t groups = 1) {
  const auto& [rows, columns] = windows;
  std::vector<OnnxAttribute> attributes{{"kernel_shape", Extents{rows.window, columns.window}},
                                        {"strides", Extents{rows.stride, columns.stride}},
                                        {"pads", Extents{rows.before, columns.before, rows.after, columns.after}}};
  if (rows.dilation != 1 || columns.dilation != 1)
    attributes.push_back({"dilations", Extents{rows.dilation, columns.dilation}});
  if (groups != 1) attributes.push_back({"group", groups});
  return attributes;
}

/// Filters [height, width, in, out] as [out, in, height, width].
std::string constant_of_filters(OnnxWriter& writer, const Tensor& filters) {
  const Shape& shape = filters.shape;
  const std::int64_t area = shape[0] * shape[1], in = shape[2], out = shape[3];
  const std::span<const float> weights = filters.floats();
  std::vector<float> turned;
  turned.reserve(weights.size());
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t at = 0; at < area; ++at) turned.push_back(weights[(at * in + i) * out + o]);
    }
  }
  return writer.constant({out, in, shape[0], shape[1]}, turned);
}

std::string write_convolution(OnnxWriter& writer, const ExportedOp& op, std::vector<OnnxAttribute> attributes) {
  std::vector<std::string> inputs{op.inputs.at(0), constant_of_filters(writer, op.parameters.at(0))};
  if (op.parameters.size() > 1) inputs.push_back(writer.constant(op.parameters[1]));
  return writer.add("Conv", std::move(inputs), attributes);
}

std::string write_conv2d(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<Conv2dParams>(op.attributes);
  return write_convolution(writer, op, window_attributes(params.windows(op.input), params.groups));
}

/// A depthwise convolution is an ONNX convolution with one group per channel and filters [height, width, 1, channels].
std::string write_depthwise_conv2d(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<DepthwiseConv2dParams>(op.attributes);
  return write_convolution(writer, op, window_attributes(params.windows(op.input), op.input[3]));
}

std::string write_max_pool(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<MaxPoolParams>(op.attributes);
  return writer.add("MaxPool", {op.inputs.at(0)}, window_attributes(params.windows(op.input)));
}

std::string write_avg_pool(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<AvgPoolParams>(op.attributes);
  std::vector<OnnxAttribute> attributes = window_attributes(params.windows(op.input));
  if (params.counts_padding) attributes.push_back({"count_include_pad", std::int64_t{1}});
  return writer.add("AveragePool", {op.inputs.at(0)}, attributes);
}

std::string write_global_avg_pool(OnnxWriter& writer, const ExportedOp& op) {
  return writer.add("Flatten", {writer.add("GlobalAveragePool", {op.inputs.at(0)})});
}

/// Channels are axis 1 of an ONNX image or vector. Errors: failed (the input is neither).
void check_channels_first(const ExportedOp& op, std::string_view type) {
  if (op.input.rank() == 4 || op.input.rank() == 2) return;
  fail(ExitCode::failed, "{} of a tensor {} has no ONNX form", type, op.input.text());
}

std::string write_batch_norm(OnnxWriter& writer, const ExportedOp& op) {
  check_channels_first(op, "batch_norm");
  const auto params = params_of<BatchNormParams>(op.attributes);
  const Tensor& beta = op.parameters.back();
  const std::vector<float> ones(static_cast<std::size_t>(beta.shape[0]), 1.0f);
  const std::string gamma =
      params.trains_scale ? writer.constant(op.parameters.at(0)) : writer.constant(beta.shape.extents(), ones);
  return writer.add("BatchNormalization",
                    {op.inputs.at(0), gamma, writer.constant(beta), writer.constant(op.buffers.at(0)),
                     writer.constant(op.buffers.at(1))},
                    {{"epsilon", params.epsilon}});
}

/// LayerNormalization applies to the last extents.
std::string write_layer_norm(OnnxWriter& writer, const ExportedOp& op) {
  const bool has_images = op.input.rank() == 4;
  const std::string x = has_images ? to_channels_last(writer, op.inputs.at(0)) : op.inputs.at(0);
  const std::string gamma = writer.constant(op.parameters.at(0)), beta = writer.constant(op.parameters.at(1));
  const float epsilon = params_of<LayerNormParams>(op.attributes).epsilon;
  const std::string y =
      writer.add("LayerNormalization", {x, gamma, beta}, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
  return has_images ? to_channels_first(writer, y) : y;
}

std::string write_lrn(OnnxWriter& writer, const ExportedOp& op) {
  check_channels_first(op, "lrn");
  const auto params = params_of<LrnParams>(op.attributes);
  const std::int64_t size = 2 * std::int64_t{params.depth_radius} + 1;  // ONNX divides alpha by it
  return writer.add("LRN", {op.inputs.at(0)},
                    {{"size", size},
                     {"alpha", params.alpha * static_cast<float>(size)},
                     {"beta", params.beta},
                     {"bias", params.bias}});
}

std::string write_scale_channels(OnnxWriter& writer, const ExportedOp& op) {
  Tensor gamma = op.parameters.at(0);
  if (op.input.rank() == 4) gamma.shape = {gamma.shape[0], 1, 1};  // ONNX images are [batch, channels, ...]
  return writer.add("Mul", {op.inputs.at(0), writer.constant(gamma)});
}

/// The axis of ONNX's tensor for an axis of a tensor of `rank` extents.
std::int64_t onnx_axis(std::size_t axis, std::size_t rank) {
  constexpr std::array<std::int64_t, 4> of_images{0, 2, 3, 1};
  return rank == 4 ? of_images.at(axis) : static_cast<std::int64_t>(axis);
}

/// The layout of Carillon, from ONNX's layout of a tensor of `rank` extents, and back.
std::string to_own_layout(OnnxWriter& writer, const std::string& x, std::size_t rank) {
  return rank == 4 ? to_channels_last(writer, x) : x;
}
std::string to_onnx_layout(OnnxWriter& writer, const std::string& x, std::size_t rank) {
  return rank == 4 ? to_channels_first(writer, x) : x;
}

/// `by_axis`, numbers by axis of Carillon, in ONNX's order of the axes.
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
  if (end < 0) end = -2 * max_attribute;  // before the first element; ONNX counts small negative numbers from the end
  return writer.add("Slice", {op.inputs.at(0), writer.constant(Extents{params.first}), writer.constant(Extents{end}),
                              writer.constant(Extents{axis}), writer.constant(Extents{params.step})});
}

std::string write_mean(OnnxWriter& writer, const ExportedOp& op) {
  const auto params = params_of<MeanParams>(op.attributes);
  Extents axes;
  for (const std::size_t axis : mean_axes(params, op.input)) axes.push_back(static_cast<std::int64_t>(axis));
  const std::string x = to_own_layout(writer, op.inputs.at(0), op.input.rank());
  const std::string y = writer.add("ReduceMean", {x}, {{"axes", axes}, {"keepdims", std::int64_t{params.keeps_axes}}});
  return to_onnx_layout(writer, y, op.output.rank());
}

// Transformers

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

std::string write_attention(OnnxWriter& writer, const ExportedOp& op) {
  const AttentionShape shape(op.output, params_of<AttentionParams>(op.attributes));
  // In the shapes of Reshape, 0 keeps an extent of the input.
  const std::string heads =
      writer.add("Reshape", {op.inputs.at(0), writer.constant(Extents{0, 0, 3 * shape.heads, shape.head_size()})});
  const auto part = [&](const std::string& of, int number) {
    const std::int64_t first = number * shape.heads;
    return writer.add("Slice", {of, writer.constant(Extents{first}), writer.constant(Extents{first + shape.heads}),
                                writer.constant(Extents{1})});
  };
  const std::string rows = writer.add("Transpose", {heads}, {{"perm", Extents{0, 2, 1, 3}}});
  const std::string columns = writer.add("Transpose", {heads}, {{"perm", Extents{0, 2, 3, 1}}});
  const std::string products = writer.add("MatMul", {part(rows, 0), part(columns, 1)});
  const std::string scores = writer.add("Mul", {products, writer.constant(Extents{1}, {shape.scale()})});
  const std::string y = writer.add("MatMul", {writer.add("Softmax", {scores}), part(rows, 2)});
  return writer.add("Reshape", {writer.add("Transpose", {y}, {{"perm", Extents{0, 2, 1, 3}}}),
                                writer.constant(Extents{0, 0, shape.width})});
}

/// Pads the patches by one token of zeros, and adds one table.
std::string write_embed_tokens(OnnxWriter& writer, const ExportedOp& op) {
  const Tensor &class_token = op.parameters.at(0), &positions = op.parameters.at(1);
  const std::int64_t channels = class_token.shape[2];
  std::vector<float> table(positions.floats().begin(), positions.floats().end());
  std::ranges::transform(class_token.floats(), table, table.begin(), std::plus<>());
  std::string x = writer.add("Reshape", {op.inputs.at(0), writer.constant(Extents{0, channels, -1})});
  x = writer.add("Transpose", {x}, {{"perm", Extents{0, 2, 1}}});
  x = writer.add("Pad", {x, writer.constant(Extents{0, 1, 0, 0, 0, 0})});
  return writer.add("Add", {x, writer.constant(positions.shape.extents(), table)});
}

std::string write_first_token(OnnxWriter& writer, const ExportedOp& op) {
  const std::string x =
      writer.add("Gather", {op.inputs.at(0), writer.constant(Extents{0})}, {{"axis", std::int64_t{1}}});
  return writer.add("Reshape", {x, writer.constant(Extents{0, -1})});
}

// Element by element

/// The name of an operator, as a template argument.
template <std::size_t size>
struct OperatorName {
  char text[size];
  constexpr OperatorName(const char (&name)[size]) { std::copy_n(name, size, text); }
};

/// An operator of one input without attributes.
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

/// Input number `number` with as many axes as the output of a broadcasting op. ONNX matches the axes from the last one,
/// the batch included, and images have their channels first.
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

/// One sample, which ONNX repeats for the batch.
std::string write_constant(OnnxWriter& writer, const ExportedOp& op) {
  std::vector<float> values = params_of<ConstantParams>(op.attributes).values;
  values.resize(static_cast<std::size_t>(op.output.elements_per_sample()), values.front());
  Extents extents = op.output.extents();
  extents[0] = 1;
  const std::string y = writer.constant(extents, values);
  return op.output.rank() == 4 ? to_channels_first(writer, y) : y;
}

/// The values, repeated for the batch of the model's input: other than a sum, a concatenation does not repeat them.
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

/// A function that returns the name of the only output, as WriteOperators.
template <auto write>
std::vector<std::string> write_one(OnnxWriter& writer, const ExportedOp& op) {
  return {write(writer, op)};
}

struct Row {
  const OpType* type;
  WriteOperators write;
};

constexpr Row table[] = {{&add_op, write_one<write_add>},
                         {&attention_op, write_one<write_attention>},
                         {&avg_pool_op, write_one<write_avg_pool>},
                         {&batch_norm_op, write_one<write_batch_norm>},
                         {&cifar_distort_op, write_one<write_cifar_distort>},
                         {&concat_op, write_one<write_concat>},
                         {&constant_op, write_one<write_constant>},
                         {&multiply_op, write_one<write_multiply>},
                         {&conv2d_op, write_one<write_conv2d>},
                         {&dense_op, write_one<write_dense>},
                         {&depthwise_conv2d_op, write_one<write_depthwise_conv2d>},
                         {&embed_tokens_op, write_one<write_embed_tokens>},
                         {&first_token_op, write_one<write_first_token>},
                         {&gelu_op, write_one<write_gelu>},
                         {&global_avg_pool_op, write_one<write_global_avg_pool>},
                         {&layer_norm_op, write_one<write_layer_norm>},
                         {&lrn_op, write_one<write_lrn>},
                         {&max_pool_op, write_one<write_max_pool>},
                         {&normalize_images_op, write_one<write_normalize_images>},
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
                         {&scale_channels_op, write_one<write_scale_channels>},
                         {&scale_input_op, write_one<write_scale_input>},
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

void OnnxWriter::begin(const std::string& op) {
  op_ = op;
  count_ = 0;
}

std::string OnnxWriter::next_name(std::string_view type) { return fmt::format("{}/{}{}", op_, type, count_++); }

std::string OnnxWriter::add(std::string_view type, std::vector<std::string> inputs,
                            const std::vector<OnnxAttribute>& attributes) {
  return add_with_outputs(type, std::move(inputs), attributes, 1).front();
}

std::vector<std::string> OnnxWriter::add_with_outputs(std::string_view type, std::vector<std::string> inputs,
                                                      const std::vector<OnnxAttribute>& attributes,
                                                      std::size_t output_count) {
  const std::string name = next_name(type);
  onnx::Node& node = *graph_.add_node();
  node.set_name(name);
  node.set_op_type(std::string(type));
  for (std::string& input : inputs) node.add_input(std::move(input));
  for (std::size_t i = 0; i < output_count; ++i) node.add_output(output_name(name, i));
  for (const OnnxAttribute& attribute : attributes) {
    onnx::Attribute& written = *node.add_attribute();
    written.set_name(std::string(attribute.name));
    if (const auto* const integer = std::get_if<std::int64_t>(&attribute.value)) {
      written.set_type(onnx::Attribute::INT);
      written.set_i(*integer);
    } else if (const auto* const number = std::get_if<float>(&attribute.value)) {
      written.set_type(onnx::Attribute::FLOAT);
      written.set_f(*number);
    } else {
      written.set_type(onnx::Attribute::INTS);
      for (const std::int64_t extent : std::get<Extents>(attribute.value)) written.add_ints(extent);
    }
  }
  return {node.output().begin(), node.output().end()};
}

std::string OnnxWriter::constant(const Extents& shape, const std::vector<float>& values) {
  onnx::Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(next_name("constant"));
  tensor.set_data_type(onnx::Tensor::FLOAT);
  for (const std::int64_t extent : shape) tensor.add_dims(extent);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return tensor.name();
}

std::string OnnxWriter::constant(const Tensor& tensor) {
  const std::span<const float> values = tensor.floats();
  return constant(tensor.shape.extents(), std::vector<float>(values.begin(), values.end()));
}

std::string OnnxWriter::constant(const Extents& values) {
  onnx::Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(next_name("constant"));
  tensor.set_data_type(onnx::Tensor::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
  return tensor.name();
}

void OnnxWriter::name_output(std::string_view type, const std::string& from, const std::string& output,
                             std::int64_t extent) {
  onnx::Node& node = *graph_.add_node();
  node.set_name(output);
  node.set_op_type(std::string(type));
  node.add_input(from);
  node.add_output(output);
  describe(output, {extent}, *graph_.add_output());
}

void OnnxWriter::describe(const std::string& name, const Extents& extents, onnx::ValueInfo& value) {
  value.set_name(name);
  onnx::TensorType& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::Tensor::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  for (const std::int64_t extent : extents) type.mutable_shape()->add_dim()->set_dim_value(extent);
}

WriteOperators onnx_operators(const OpType& type) {
  const auto* const found = std::ranges::find(table, &type, &Row::type);
  return found != std::end(table) ? found->write : nullptr;
}

}  // namespace carillon
