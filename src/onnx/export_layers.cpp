// Exports input ops, layers and the ops of transformers.
#include <algorithm>
#include <cmath>
#include <functional>

#include "carillon/core/error.h"
#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/image_input/image_input_kernels.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/lrn/lrn.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/tokens/tokens.h"
#include "src/onnx/operator_table.h"

namespace carillon {
namespace {

// The input op

/// Adds y = v * factor + offset, with one factor and one offset for each channel.
std::string write_normalized(OnnxWriter& writer, const std::string& x, const PixelMap& map, std::int64_t channels) {
  const auto by_channel = [&](const auto& values) {
    return writer.constant({1, channels, 1, 1}, {std::begin(values), std::begin(values) + channels});
  };
  return writer.add("Add", {writer.add("Mul", {x, by_channel(map.factor)}), by_channel(map.offset)});
}

/// `count`: number of values of an image.
std::string write_standardized(OnnxWriter& writer, const std::string& x, std::int64_t count) {
  const auto mean = [&](const std::string& y) { return writer.add("ReduceMean", {y}, {{"axes", Extents{1, 2, 3}}}); };
  const std::string centred = writer.add("Sub", {x, mean(x)});
  const std::string deviation = writer.add("Sqrt", {mean(writer.add("Mul", {centred, centred}))});
  const std::string least = writer.constant({}, {static_cast<float>(1.0 / std::sqrt(static_cast<double>(count)))});
  return writer.add("Div", {centred, writer.add("Max", {deviation, least})});
}

std::string write_image_input(OnnxWriter& writer, const ExportedOp& op) {
  auto params = params_of<ImageInputParams>(op.attributes);
  const std::int64_t top = (op.input[1] - op.output[1]) / 2, left = (op.input[2] - op.output[2]) / 2;
  std::string x = op.inputs.at(0);
  if (op.output[1] != op.input[1] || op.output[2] != op.input[2]) {  // crops the centre
    const std::string begin = writer.constant(Extents{top, left});
    const std::string end = writer.constant(Extents{top + op.output[1], left + op.output[2]});
    x = writer.add("Slice", {x, begin, end, writer.constant(Extents{2, 3})});
  }
  switch (params.values) {
    case PixelValues::normalized:
      params.sample = {op.input[1], op.input[2], op.input[3]};
      return write_normalized(writer, x, ImageInputMap(params).fixed, op.output[3]);
    case PixelValues::standardized:
      return write_standardized(writer, x, op.output.elements_per_sample());
    case PixelValues::scaled:
      break;
  }
  return writer.add("Mul", {x, writer.constant({}, {params.scale})});
}

// Layers

std::string write_dense(OnnxWriter& writer, const ExportedOp& op) {
  const bool has_images = op.input.rank() == 4, has_biases = op.parameters.size() > 1;
  std::string x = op.inputs.at(0);
  if (has_images) x = to_channels_last(writer, x);           // the rows of the weights follow this order
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

/// Adds the filters [height, width, in, out] as a constant [out, in, height, width].
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

/// Checks that the input is an ONNX image or vector, because only these have channels on axis 1. Errors: failed (the
/// input is neither an image nor a vector).
void check_channels_first(const ExportedOp& op, std::string_view type) {
  if (op.input.rank() == 4 || op.input.rank() == 2) return;
  fail(ExitCode::failed, "{} of a tensor {} has no ONNX form", type, op.input.text());
}

/// ONNX's BatchNormalization requires channels on axis 1. Exported images already have this layout. Other tensors have
/// the channels on the last axis.
std::string write_batch_norm(OnnxWriter& writer, const ExportedOp& op) {
  const std::size_t rank = op.input.rank();
  const bool has_rows = rank != 4 && rank != 2;
  Extents to_second{0, static_cast<std::int64_t>(rank) - 1}, to_last{0};
  for (std::size_t axis = 1; axis + 1 < rank; ++axis) {
    to_second.push_back(static_cast<std::int64_t>(axis));
    to_last.push_back(static_cast<std::int64_t>(axis) + 1);
  }
  to_last.push_back(1);
  const std::string x = has_rows ? writer.add("Transpose", {op.inputs.at(0)}, {{"perm", to_second}}) : op.inputs.at(0);
  const auto params = params_of<BatchNormParams>(op.attributes);
  const Tensor& beta = op.parameters.back();
  const std::vector<float> ones(static_cast<std::size_t>(beta.shape[0]), 1.0f);
  const std::string gamma =
      params.trains_scale ? writer.constant(op.parameters.at(0)) : writer.constant(beta.shape.extents(), ones);
  const std::string y = writer.add(
      "BatchNormalization",
      {x, gamma, writer.constant(beta), writer.constant(op.buffers.at(0)), writer.constant(op.buffers.at(1))},
      {{"epsilon", params.epsilon}});
  return has_rows ? writer.add("Transpose", {y}, {{"perm", to_last}}) : y;
}

/// ONNX's LayerNormalization normalises over the last axes, so channels must be last.
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
  const std::int64_t size = 2 * std::int64_t{params.depth_radius} + 1;  // ONNX divides alpha by `size`
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

// Transformers

std::string write_attention(OnnxWriter& writer, const ExportedOp& op) {
  const AttentionShape shape(op.output, params_of<AttentionParams>(op.attributes));
  // In a shape for Reshape, 0 means that the extent stays the same as in the input.
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

/// Pads the patches by one token of zeros in front. Then adds one table, which contains the class token and the
/// positions.
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

constexpr ExportRow rows[] = {{&attention_op, write_one<write_attention>},
                              {&avg_pool_op, write_one<write_avg_pool>},
                              {&batch_norm_op, write_one<write_batch_norm>},
                              {&conv2d_op, write_one<write_conv2d>},
                              {&dense_op, write_one<write_dense>},
                              {&depthwise_conv2d_op, write_one<write_depthwise_conv2d>},
                              {&embed_tokens_op, write_one<write_embed_tokens>},
                              {&first_token_op, write_one<write_first_token>},
                              {&global_avg_pool_op, write_one<write_global_avg_pool>},
                              {&layer_norm_op, write_one<write_layer_norm>},
                              {&lrn_op, write_one<write_lrn>},
                              {&max_pool_op, write_one<write_max_pool>},
                              {&image_input_op, write_one<write_image_input>},
                              {&scale_channels_op, write_one<write_scale_channels>}};

}  // namespace

std::span<const ExportRow> exported_layers() { return rows; }

}  // namespace carillon
