// Imports ONNX's Resize: each output element of an axis is a weighted sum of elements of the input.
#include <algorithm>
#include <cmath>

#include "src/onnx/importer.h"

namespace carillon {
namespace {

/// How Resize maps an axis of `in` elements to an axis of `out` elements.
struct ResizedAxis {
  std::int64_t in = 1, out = 1;
  double scale = 1.0;     ///< out / in; the file may state another number
  bool has_sizes = true;  ///< scale is exactly out / in
};

/// Returns the position in the input that corresponds to the centre of output element `i`.
double place_of(Importer& importer, const OnnxNode& node, const ResizedAxis& axis, std::int64_t i) {
  const std::string mode =
      node.text("coordinate_transformation_mode", importer.operator_set() < 11 ? "asymmetric" : "half_pixel");
  const auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out), at = static_cast<double>(i);
  const auto divided = [&](double x) { return axis.has_sizes ? x * in / out : x / axis.scale; };
  double place = 0.0;
  if (mode == "half_pixel") {
    place = divided(at + 0.5) - 0.5;
  } else if (mode == "pytorch_half_pixel") {
    place = axis.out > 1 ? divided(at + 0.5) - 0.5 : 0.0;
  } else if (mode == "align_corners") {
    place = axis.out > 1 ? at * (in - 1.0) / (out - 1.0) : 0.0;
  } else if (mode == "asymmetric") {
    place = divided(at);
  } else if (mode == "half_pixel_symmetric") {
    place = in / 2.0 * (1.0 - out / (axis.scale * in)) + divided(at + 0.5) - 0.5;
  } else if (mode == "tf_half_pixel_for_nn") {
    place = divided(at + 0.5);
  } else {
    importer.refuse(node, "has the coordinate transformation " + printable(mode) + ", which is not supported");
  }
  // Scales are float32, so a position exactly between two pixels may have a rounding error. This code removes the
  // error.
  const double half = std::round(2.0 * place) / 2.0;
  return std::abs(place - half) < 1e-6 * std::max(1.0, std::abs(place)) ? half : place;
}

std::int64_t nearest(Importer& importer, const OnnxNode& node, double place) {
  const std::string mode = node.text("nearest_mode", importer.operator_set() < 11 ? "floor" : "round_prefer_floor");
  if (mode == "round_prefer_floor") return std::llround(std::ceil(place - 0.5));
  if (mode == "round_prefer_ceil") return std::llround(std::floor(place + 0.5));
  if (mode == "floor") return std::llround(std::floor(place));
  if (mode == "ceil") return std::llround(std::ceil(place));
  importer.refuse(node, "rounds by " + printable(mode) + ", which is not supported");
}

/// Returns the weights of four neighbouring elements for a position between the second and the third of them (R. Keys'
/// cubic convolution).
std::vector<double> cubic_weights(double fraction, double a) {
  const auto near = [&](double x) { return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0; };       // x <= 1
  const auto far = [&](double x) { return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a; };  // 1 < x < 2
  return {far(1.0 + fraction), near(fraction), near(1.0 - fraction), far(2.0 - fraction)};
}

/// The indices and weights of the elements that each output element of the axis reads.
GatherParams resized_axis(Importer& importer, const OnnxNode& node, const ResizedAxis& axis) {
  const std::string mode = node.text("mode", "nearest");
  GatherParams params;
  params.terms = mode == "nearest" ? 1 : mode == "cubic" ? 4 : 2;
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    importer.refuse(node, "has the mode " + printable(mode) + ", which is not supported");
  const auto a = static_cast<double>(node.number("cubic_coeff_a", -0.75f));
  const bool excludes_outside = node.integer("exclude_outside", 0) != 0;
  for (std::int64_t i = 0; i < axis.out; ++i) {
    const double place = place_of(importer, node, axis, i), before = std::floor(place), fraction = place - before;
    std::vector<double> weights{1.0};
    std::int64_t first = 0;
    if (mode == "nearest") {
      first = nearest(importer, node, place);
    } else if (mode == "linear") {
      weights = {1.0 - fraction, fraction};
      first = std::llround(before);
    } else {
      weights = cubic_weights(fraction, a);
      first = std::llround(before) - 1;
    }
    if (excludes_outside && mode != "nearest") {
      double sum = 0.0;
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const std::int64_t index = first + static_cast<std::int64_t>(k);
        if (index < 0 || index >= axis.in) weights[k] = 0.0;
        sum += weights[k];
      }
      for (double& weight : weights) weight /= sum;
    }
    for (std::size_t k = 0; k < weights.size(); ++k) {
      params.indices.push_back(std::clamp<std::int64_t>(first + static_cast<std::int64_t>(k), 0, axis.in - 1));
      if (params.terms > 1) params.weights.push_back(static_cast<float>(weights[k]));
    }
  }
  return params;
}

/// The extents and scales of all axes of `x`.
std::vector<ResizedAxis> resized_axes(Importer& importer, const OnnxNode& node, const Placed& x) {
  const bool is_first_form = importer.operator_set() < 11;  // the inputs of the first form are x and scales
  const OnnxConstant scales = importer.constant(node, is_first_form ? 1 : 2), sizes = importer.constant(node, 3);
  const bool has_scales = scales != nullptr && !scales->floats.empty();
  const bool has_sizes = sizes != nullptr && !sizes->has_floats && !sizes->integers.empty();
  if (has_scales == has_sizes) importer.refuse(node, "needs constant scales or sizes");
  Extents axes = node.integers("axes");
  if (axes.empty()) {
    for (std::size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (axes.size() != (has_scales ? scales->floats.size() : sizes->integers.size()))
    importer.refuse(node, "has another number of scales or sizes than axes");
  std::vector<ResizedAxis> all;
  for (const std::int64_t extent : x.shape) all.push_back({.in = extent, .out = extent});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = all[importer.axis(node, axes[i], x)];
    const auto in = static_cast<double>(axis.in);
    if (has_scales) {
      axis.scale = static_cast<double>(scales->floats[i]);
      if (!(axis.scale > 0.0) || !(axis.scale < 1e6)) importer.refuse(node, "has a scale that is not positive");
      if (axis.scale == 1.0) continue;
      axis.out = static_cast<std::int64_t>(std::floor(in * axis.scale * (1.0 + 1e-9)));
      axis.has_sizes = std::abs(in * axis.scale - static_cast<double>(axis.out)) < 1e-6 * in;
    } else {
      axis.out = sizes->integers[i];
      axis.scale = static_cast<double>(axis.out) / in;
    }
    if (axis.out < 1) importer.refuse(node, "leaves nothing of its input");
    if (axis.out > max_folded) importer.refuse(node, "makes an axis that is too long");
  }
  return all;
}

/// Resizes one axis after the other: interpolation is separable.
void add_resize(Importer& importer, const OnnxNode& node) {
  Placed x = importer.input(node);
  if (x.batch != BatchInFile::separate) importer.refuse(node, "resizes windows, which is not supported");
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    importer.refuse(node, "keeps the aspect ratio, which is not supported");
  const std::vector<ResizedAxis> axes = resized_axes(importer, node, x);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].in == axes[i].out && axes[i].scale == 1.0) continue;
    if (node.integer("antialias", 0) != 0 && axes[i].scale < 1.0)
      importer.refuse(node, "has antialiasing, which is not supported");
    x = gathered_axis(importer, node, x, i, resized_axis(importer, node, axes[i]));
  }
  importer.set_output(node, std::move(x));
}

constexpr Operator operators[] = {{"Resize", add_resize}};

}  // namespace

std::span<const Operator> resize_operators() { return operators; }

}  // namespace carillon
