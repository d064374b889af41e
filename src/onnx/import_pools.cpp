// Imports ONNX's pools, and reads the windows of pools and convolutions.
#include <algorithm>

#include "kernels/pool/pool.h"
#include "src/onnx/import_windows.h"

namespace carillon {
namespace {

/// Returns the pads that the attributes pads and auto_pad set. An empty list means TensorFlow's "same".
Extents pads_of(Importer& importer, const OnnxNode& node, const Windows& windows) {
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER") return {};
  if (automatic == "VALID") return {0, 0, 0, 0};
  if (automatic == "SAME_LOWER") {
    const Placed& given = importer.input(node);
    const Placed x = given.file_rank() == 3 ? as_image(given) : given;
    Extents pads(4, 0);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t extent = x.shape[x.rank() - 2 + i], stride = windows.stride[i];
      const std::int64_t span = (windows.window[i] - 1) * windows.dilation[i] + 1;
      const std::int64_t all = std::max<std::int64_t>(0, ((extent - 1) / stride) * stride + span - extent);
      pads[i] = all - all / 2;
      pads[2 + i] = all / 2;
    }
    return pads;
  }
  if (automatic != "NOTSET") importer.refuse(node, "has auto_pad " + printable(automatic) + ", which is not supported");
  Extents pads = node.integers("pads", {0, 0, 0, 0});
  if (pads.size() == 2) pads = {pads[0], 0, pads[1], 0};
  if (pads.size() != 4) importer.refuse(node, "does not slide over images");
  return pads;
}

}  // namespace

Placed as_image(Placed rows) {
  rows.shape.push_back(1);
  rows.axes.push_back(-1);
  return rows;
}

Windows windows_of(Importer& importer, const OnnxNode& node, const Extents& window) {
  Windows windows{window, node.integers("strides", {1, 1}), node.integers("dilations", {1, 1}), {}};
  for (Extents* const all : {&windows.window, &windows.stride, &windows.dilation}) {
    if (all->size() == 1) all->push_back(1);
  }
  if (windows.window.size() != 2 || windows.stride.size() != 2 || windows.dilation.size() != 2) {
    importer.refuse(node, "does not slide over images");
  }
  for (const Extents* const all : {&windows.window, &windows.stride, &windows.dilation}) {
    if (std::ranges::any_of(*all, [](std::int64_t one) { return one < 1 || one > max_attribute; })) {
      importer.refuse(node, "has a window, stride or dilation that is below 1 or too large");
    }
  }
  windows.pads = pads_of(importer, node, windows);
  if (std::ranges::any_of(windows.pads, [](std::int64_t pad) { return pad < -max_attribute || pad > max_attribute; }))
    importer.refuse(node, "has pads that are too large");
  const auto more = importer.pads_of_reader.find(node.input(0));
  if (more != importer.pads_of_reader.end()) {
    if (windows.pads.empty()) importer.refuse(node, "is padded twice, which is not supported");
    for (std::size_t i = 0; i < 4; ++i) windows.pads[i] += more->second[i];
  }
  return windows;
}

namespace {

/// The input of a pool, as images [batch, channels, height, width].
Placed pooled_images(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (x.batch != BatchInFile::separate || !x.is_batch(0) || x.rank() < 3 || x.rank() > 4)
    importer.refuse(node, "does not slide over images");
  return x.rank() == 3 ? as_image(x) : x;
}

/// Sets the output of a pool to the images `y`. If the node slides over rows, converts the images to rows.
void set_pooled(Importer& importer, const OnnxNode& node, Placed y) {
  const bool are_rows = importer.input(node).rank() == 3;
  importer.set_output(node, are_rows ? importer.without_axis(node, y, 3) : y);
}

void set_pooled(Importer& importer, const OnnxNode& node, Value value) {
  const Shape& shape = importer.graph().shape(value);
  set_pooled(importer, node, Importer::placed(value, {batch_mark, shape[3], shape[1], shape[2]}, image_order));
}

/// Returns the windows of a pool. With ceil_mode, the last windows may end outside the image, so the pads after the
/// image are increased.
Windows pool_windows(Importer& importer, const OnnxNode& node, const Placed& x) {
  Windows windows = windows_of(importer, node, node.integers("kernel_shape"));
  if (windows.dilation != Extents{1, 1}) importer.refuse(node, "is dilated, which is not supported");
  if (node.integer("ceil_mode", 0) == 0 || windows.pads.empty()) return windows;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t extent = x.shape[2 + i], stride = windows.stride[i];
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
  const Placed x = pooled_images(importer, node);
  const Windows windows = pool_windows(importer, node, x);
  constexpr std::int64_t most_positions = 256;  // largest window of the op
  const bool sees_all = windows.window == Extents{x.shape[2], x.shape[3]} && windows.pads == Extents(4, 0);
  if (sees_all && x.shape[2] * x.shape[3] > most_positions)
    return set_pooled(importer, node, max_over(importer, node, x, {false, false, true, true}));
  set_pooled(importer, node,
             max_pool(importer.graph(), importer.op_name(node), importer.arranged(node, x, image_order),
                      pool_params<MaxPoolParams>(windows)));
}

void add_avg_pool(Importer& importer, const OnnxNode& node) {
  const Placed x = pooled_images(importer, node);
  const Windows windows = pool_windows(importer, node, x);
  auto params = pool_params<AvgPoolParams>(windows);
  params.counts_padding = node.integer("count_include_pad", 0) != 0;
  if (params.counts_padding && node.integer("ceil_mode", 0) != 0 && windows.pads != pads_of(importer, node, windows)) {
    importer.refuse(node, "has ceil_mode with count_include_pad, which is not supported");
  }
  if (windows.pads == Extents{0, 0, 0, 0}) params.counts_padding = false;
  set_pooled(importer, node,
             avg_pool(importer.graph(), importer.op_name(node), importer.arranged(node, x, image_order), params));
}

void add_global_avg_pool(Importer& importer, const OnnxNode& node) {
  const Placed x = pooled_images(importer, node);
  const Value y = global_avg_pool(importer.graph(), importer.op_name(node), importer.arranged(node, x, image_order));
  set_pooled(importer, node, Placed{y, {batch_mark, x.shape[1], 1, 1}, {0, 1, -1, -1}});
}

constexpr Operator operators[] = {
    {"AveragePool", add_avg_pool}, {"GlobalAveragePool", add_global_avg_pool}, {"MaxPool", add_max_pool}};

}  // namespace

std::span<const Operator> pool_operators() { return operators; }

}  // namespace carillon
