// Imports ONNX's convolutions.
#include <algorithm>
#include <functional>
#include <numeric>

#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/layout/layout.h"
#include "src/onnx/import_windows.h"

namespace carillon {
namespace {

/// Converts filters from [out, in, ...] to [..., in, out].
std::vector<float> filters_of(const OnnxArray& weights) {
  std::vector<float> values;
  values.reserve(weights.floats.size());
  const std::int64_t out = weights.shape[0], in = weights.shape[1],
                     area = std::accumulate(weights.shape.begin() + 2, weights.shape.end(), std::int64_t{1},
                                            std::multiplies<>());
  for (std::int64_t at = 0; at < area; ++at) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t o = 0; o < out; ++o)
        values.push_back(weights.floats[static_cast<std::size_t>((o * in + i) * area + at)]);
    }
  }
  return values;
}

/// Sets the weights and biases of the next op, which is a convolution.
void give_filters(Importer& importer, const std::string& name, const OnnxArray& weights, const OnnxConstant& biases,
                  std::string order) {
  importer.give(name + "/weights", weights, {.order = std::move(order), .values = [&] { return filters_of(weights); }});
  if (biases) importer.give(name + "/biases", *biases);
}

/// Adds a convolution of [batch, channels, height, width, depth] whose filters have depth 1, as a convolution of images
/// [height, width * depth] with the dilation `depth` along the width.
void add_conv_of_volumes(Importer& importer, const OnnxNode& node, const OnnxConstant& weights) {
  const Placed& x = importer.input(node);
  const Extents strides = node.integers("strides", {1, 1, 1}), pads = node.integers("pads", Extents(6, 0)),
                dilations = node.integers("dilations", {1, 1, 1});
  const bool is_flat = weights->shape.size() == 5 && weights->shape[4] == 1 && strides == Extents{1, 1, 1} &&
                       pads.size() == 6 && pads[2] == 0 && pads[5] == 0 && dilations == Extents{1, 1, 1} &&
                       node.text("auto_pad", "NOTSET") == "NOTSET" && weights->shape[1] == x.shape[1];
  if (!is_flat) importer.refuse(node, "is a convolution of volumes, which is not supported");
  const OnnxConstant biases = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  const std::int64_t depth = x.shape[4], filters = weights->shape[0];
  Graph& graph = importer.graph();
  const std::string name = importer.layer_name(node, *weights);
  const Value volumes = importer.arranged(node, x, {0, 2, 3, 4, 1});
  const Value images = reshape(graph, importer.unique_name(name + "/images"), volumes,
                               {.extents = {x.shape[2], x.shape[3] * depth, x.shape[1]}});
  give_filters(importer, name, *weights, biases, "filters of volumes");
  const Value y = conv2d(graph, name, images,
                         {.filters = filters,
                          .kernel = weights->shape[2],
                          .stride = 1,
                          .weights = fan_in(weights->shape[1] * weights->shape[2] * weights->shape[3]),
                          .biases = biases ? std::optional(Initializer{}) : std::nullopt,
                          .l2_factor = importer.settings().regularization,
                          .kernel_width = weights->shape[3],
                          .dilation_width = depth,
                          .pads = {pads[0], pads[1] * depth, pads[3], pads[4] * depth}});
  const std::int64_t height = graph.shape(y)[1], width = graph.shape(y)[2] / depth;
  const Value back =
      reshape(graph, importer.unique_name(name + "/volumes"), y, {.extents = {height, width, depth, filters}});
  importer.set_output(node, Importer::placed(back, {batch_mark, filters, height, width, depth}, {0, 2, 3, 4, 1}));
}

/// The layer of a Conv node.
struct ConvLayer {
  std::string name;
  std::int64_t units = 0, groups = 1, channels = 0;
  Initializer weights;
  std::optional<Initializer> biases;
  float l2_factor = 0.0f;
  std::function<void(std::string order)> give;  ///< called before the op is added
};

/// Adds the convolution of images [batch, height, width, channels].
Value convolved(Graph& graph, const ConvLayer& layer, Value images, const Windows& windows) {
  const bool is_depthwise =
      layer.groups > 1 && layer.groups == layer.channels && layer.units == layer.channels && windows.suits_depthwise();
  layer.give(is_depthwise ? "filters of channels" : fmt::format("filters of {} groups", layer.groups));
  if (is_depthwise) {
    DepthwiseConv2dParams params{
        .kernel = windows.window[0], .weights = layer.weights, .biases = layer.biases, .l2_factor = layer.l2_factor};
    windows.set(params);
    if (windows.window[1] != windows.window[0]) params.kernel_width = windows.window[1];
    return depthwise_conv2d(graph, layer.name, images, params);
  }
  Conv2dParams params{.filters = layer.units,
                      .kernel = windows.window[0],
                      .weights = layer.weights,
                      .biases = layer.biases,
                      .l2_factor = layer.l2_factor,
                      .groups = layer.groups,
                      .dilation = windows.dilation[0]};
  windows.set(params);
  if (windows.window[1] != windows.window[0]) params.kernel_width = windows.window[1];
  if (windows.dilation[1] != windows.dilation[0]) params.dilation_width = windows.dilation[1];
  return conv2d(graph, layer.name, images, params);
}

/// Adds the convolution of several images for each sample: x is [batch, count, channels, height, width]. The op accepts
/// only one image per sample, so the padded images are joined along the height. Rows of the result that mix two images
/// are then removed.
Placed convolved_parts(Importer& importer, const OnnxNode& node, const Placed& x, const ConvLayer& layer,
                       const Windows& windows) {
  if (windows.pads.empty()) importer.refuse(node, "has auto_pad for windows, which is not supported");
  Graph& graph = importer.graph();
  const std::int64_t count = x.shape[1], width = x.shape[4], stride = windows.stride[0];
  const std::int64_t span = (windows.window[0] - 1) * windows.dilation[0] + 1;
  const std::int64_t padded = x.shape[3] + windows.pads[0] + windows.pads[2];
  const std::int64_t pitch = (padded + stride - 1) / stride * stride;  // rows of each image in the joined image
  if (span > padded) importer.refuse(node, "has a window that is larger than its input");
  Value value = importer.arranged(node, x, {0, 1, 3, 4, 2});
  const std::int64_t after = pitch - x.shape[3] - windows.pads[0];
  value = pad(graph, importer.unique_name(layer.name + "/pad"), value,
              {.before = {0, windows.pads[0], 0, 0}, .after = {0, after, 0, 0}});
  value = reshape(graph, importer.unique_name(layer.name + "/joined"), value,
                  {.extents = {count * pitch, width, x.shape[2]}});
  Windows joined = windows;
  joined.pads = {0, windows.pads[1], std::max<std::int64_t>(0, span - stride), windows.pads[3]};
  value = convolved(graph, layer, value, joined);
  const Shape shape = graph.shape(value);
  const std::int64_t rows = pitch / stride, kept = (padded - span) / stride + 1;
  value = reshape(graph, importer.unique_name(layer.name + "/parts"), value,
                  {.extents = {count, rows, shape[2], shape[3]}});
  value = pad(graph, importer.unique_name(layer.name + "/rows"), value,
              {.before = {0, 0, 0, 0}, .after = {0, kept - rows, 0, 0}});
  return Importer::placed(value, {batch_mark, count, shape[3], kept, shape[2]}, {0, 1, 3, 4, 2},
                          BatchInFile::joined_with_next);
}

void add_conv(Importer& importer, const OnnxNode& node) {
  Placed x = importer.input(node);
  OnnxConstant weights = importer.floats(node, 1);
  if (weights->element_count() < 1) importer.refuse(node, "has filters without elements");
  if (x.rank() == 5 && !x.merges_batch()) return add_conv_of_volumes(importer, node, weights);
  const bool are_rows = x.file_rank() == 3 && weights->shape.size() == 3;
  if (are_rows) {
    x = as_image(x);
    OnnxArray filters = *weights;
    filters.shape.push_back(1);
    weights = std::make_shared<const OnnxArray>(std::move(filters));
  }
  if (x.file_rank() != 4 || weights->shape.size() != 4 || !x.is_batch(0))
    importer.refuse(node, "is no convolution of images");
  const OnnxConstant biases = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  ConvLayer layer{.name = importer.layer_name(node, *weights),
                  .groups = node.integer("group", 1),
                  .channels = x.shape[x.rank() - 3],
                  .weights = fan_in(weights->shape[1] * weights->shape[2] * weights->shape[3]),
                  .biases = biases ? std::optional(Initializer{}) : std::nullopt,
                  .l2_factor = importer.settings().regularization};
  const std::int64_t filters = weights->shape[0];
  if (layer.groups < 1 || layer.channels % layer.groups != 0 || weights->shape[1] != layer.channels / layer.groups)
    importer.refuse(node, "has filters for another number of channels");
  bool is_new = false;
  layer.units = importer.units_of(node, filters, layer.name, is_new);
  const bool is_point = weights->shape[2] == 1 && weights->shape[3] == 1 && layer.groups == 1;
  const bool is_padded =
      importer.pads_of_reader.contains(node.input(0)) || node.integers("pads", {0, 0, 0, 0}) != Extents{0, 0, 0, 0};
  layer.give = [&](std::string order) {
    if (!is_new) give_filters(importer, layer.name, *weights, biases, std::move(order));
  };
  Placed y;
  if (is_point && x.rank() == 4 && x.axes[2] < 0 && x.axes[3] < 0 && !is_padded) {
    layer.give("filters of a point");  // a conv2d has filters of another shape, so a dense layer and a conv2d cannot
                                       // share filters
    const Value value =
        dense(importer.graph(), layer.name, x.value,
              {.units = layer.units, .weights = layer.weights, .biases = layer.biases, .l2_factor = layer.l2_factor});
    y = {value, {batch_mark, layer.units, 1, 1}, {0, 1, -1, -1}};
  } else {
    const Windows windows = windows_of(importer, node, {weights->shape[2], weights->shape[3]});
    if (x.merges_batch()) {
      y = convolved_parts(importer, node, x, layer, windows);
    } else {
      const Value value = convolved(importer.graph(), layer, importer.arranged(node, x, image_order), windows);
      const Shape& shape = importer.graph().shape(value);
      y = Importer::placed(value, {batch_mark, shape[3], shape[1], shape[2]}, image_order);
    }
  }
  importer.set_output(node, are_rows ? importer.without_axis(node, y, y.rank() - 1) : y);
}

constexpr Operator operators[] = {{"Conv", add_conv}};

}  // namespace

std::span<const Operator> convolution_operators() { return operators; }

}  // namespace carillon
