// Imports ONNX's layers: convolutions, dense layers, products of matrices, norms and pools.
#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layout/layout.h"
#include "kernels/matmul/matmul.h"
#include "kernels/pool/pool.h"
#include "src/models/layers.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

Initializer fan_in(std::int64_t count) { return fan_in_uniform(std::max<std::int64_t>(count, 1)); }

/// Returns the pads that the attributes pads and auto_pad set, or nullopt for TensorFlow's "same".
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

  /// Whether Padding can describe the pads: all are equal, or they are TensorFlow's "same".
  bool has_even_pads() const { return std::ranges::adjacent_find(pads, std::not_equal_to<>()) == pads.end(); }
  Padding padding() const { return pads.empty() ? Padding::same : Padding::symmetric(pads[0]); }
  bool suits_depthwise() const {
    const auto pads_less = [&](std::size_t i) { return pads[i] < window[i % 2]; };
    return dilation == Extents{1, 1} &&
           (pads.empty() || (pads_less(0) && pads_less(1) && pads_less(2) && pads_less(3)));
  }
  /// Sets the window fields of an op's parameters.
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
  return windows;
}

/// Converts filters from [out, in, height, width] to [height, width, in, out].
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

/// Adds a convolution along one axis of [batch, channels, length] as a convolution of images of width 1.
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

/// Transposes a matrix [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      result[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return result;
}

/// Adds a dense layer with constant weights. `turned`: the weights are [out, in].
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

/// Returns an operand of a matrix product. The last two axes are the matrices; sets `is_transposed` if they are
/// transposed in memory.
Value matrices(Importer& importer, const OnnxNode& node, const Placed& x, bool& is_transposed) {
  std::vector<int> turned = ascending(x.rank());
  std::swap(turned[x.rank() - 1], turned[x.rank() - 2]);
  is_transposed = stored_order(x) == turned;
  return importer.arranged(node, x, is_transposed ? turned : ascending(x.rank()));
}

/// Adds the matrix product of two computed values.
void add_product(Importer& importer, const OnnxNode& node) {
  const Placed a = importer.input(node, 0), b = importer.input(node, 1);
  if (a.rank() != b.rank() || a.rank() < 3 || a.merges_batch != b.merges_batch ||
      !std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin())) {
    importer.refuse(node, "multiplies values of these shapes, which is not supported");
  }
  if (std::optional<Placed> y = importer.fused_attention(node, a, b)) return importer.set_output(node, std::move(*y));
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
  // ONNX's momentum is the weight of the old value. The rounding turns 1 - 0.9f into 0.1.
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

/// Returns the windows of a pool. With ceil_mode, the last windows may end outside the image, so the pads after the
/// image are increased.
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

constexpr Operator operators[] = {{"AveragePool", add_avg_pool},
                                  {"BatchNormalization", add_batch_norm},
                                  {"Conv", add_conv},
                                  {"Gemm", add_gemm},
                                  {"GlobalAveragePool", add_global_avg_pool},
                                  {"LayerNormalization", add_layer_norm},
                                  {"MatMul", add_matmul},
                                  {"MaxPool", add_max_pool}};

}  // namespace

std::span<const Operator> layer_operators() { return operators; }

}  // namespace carillon
