// Imports ONNX's pools, and reads the windows of pools and convolutions.
#include <algorithm>

#include "kernels/pool/pool.h"
#include "src/onnx/import_windows.h"

namespace carillon {
namespace {

/// The pads that the attributes pads and auto_pad set; nullopt: TensorFlow's "same".
std::optional<Extents> pads_of(Importer& importer, const OnnxNode& node) {
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER") return std::nullopt;
  if (automatic == "VALID") return Extents{0, 0, 0, 0};
  if (automatic != "NOTSET") importer.refuse(node, "has auto_pad " + printable(automatic) + ", which is not supported");
  const Extents pads = node.integers("pads", {0, 0, 0, 0});
  if (pads.size() != 4) importer.refuse(node, "does not slide over images");
  return pads;
}

}  // namespace

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

namespace {

Placed images(Graph& graph, Value value) {
  const Shape& shape = graph.shape(value);
  return Importer::placed(value, {batch_mark, shape[3], shape[1], shape[2]}, image_order);
}

void check_pool(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (x.rank() != 4 || x.merges_batch()) importer.refuse(node, "does not slide over images");
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
  const Windows windows = pool_windows(importer, node);
  const Placed& image = importer.input(node);
  const bool sees_all = windows.window == Extents{image.shape[2], image.shape[3]} && windows.pads == Extents(4, 0);
  if (sees_all) return importer.set_output(node, max_over(importer, node, image, {false, false, true, true}));
  const auto params = pool_params<MaxPoolParams>(windows);
  const Value x = importer.arranged(node, image, image_order);
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

constexpr Operator operators[] = {
    {"AveragePool", add_avg_pool}, {"GlobalAveragePool", add_global_avg_pool}, {"MaxPool", add_max_pool}};

}  // namespace

std::span<const Operator> pool_operators() { return operators; }

}  // namespace carillon
