// Parts that the ResNets for ImageNet share: initial values, input and stem, logits.
//
// Initial values are truncated normal, cut at two standard deviations. Convolutions have variance
// 2 / (kernel^2 * filters), logits have deviation 0.01. The last gamma of a block is 0, so the block starts as the
// identity. Source: Goyal and others, "Accurate, large minibatch SGD", 2017, section 5.1.
#pragma once

#include <cmath>
#include <string_view>

#include "carillon/core/error.h"
#include "kernels/avg_pool/avg_pool.h"
#include "kernels/max_pool/max_pool.h"
#include "src/models/layers.h"

namespace carillon {

inline ConvNormParams imagenet_conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(kernel * kernel * filters));
  return {.filters = filters,
          .kernel = kernel,
          .stride = stride,
          .l2_factor = l2_factor,
          .weights = normal_after_cut(deviation)};
}

/// Adds the input, normalised with ImageNet's means and deviations.
inline Value imagenet_input(Graph& graph, const NetworkSettings& settings) {
  const NormalizeImagesParams input_form{
      .mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f, 1.0f}, .padding = 4};
  return normalized_input(graph, input_form, settings);
}

/// Adds the input, the 7x7 stem and the first pooling: [224, 224, 3] -> [56, 56, 64].
inline Value imagenet_stem(Graph& graph, const NetworkSettings& settings) {
  Value x = imagenet_input(graph, settings);
  x = conv_norm_relu(graph, "stem", x, imagenet_conv(64, 7, 2, settings.regularization));
  return max_pool(graph, "pool", x, {.window = 3, .stride = 2, .padding = Padding::symmetric(1)});
}

/// Adds the average over each image and the logits, with biases.
inline Value imagenet_logits(Graph& graph, Value x, const NetworkSettings& settings) {
  x = global_avg_pool(graph, "average", x);
  return dense(graph, "logits", x,
               {.units = settings.outputs, .weights = normal_after_cut(0.01), .l2_factor = settings.regularization});
}

/// Checks the shape of the images. Errors: usage (images without colours, or smaller than 32 x 32).
inline void check_imagenet_images(std::string_view network, const NetworkSettings& settings) {
  constexpr std::int64_t least_side = 32;
  check_has_colours(network, settings);
  if (settings.image.height >= least_side && settings.image.width >= least_side) return;
  fail(ExitCode::usage, "the network {} requires images of at least {} x {}; these images are {} x {}", network,
       least_side, least_side, settings.image.height, settings.image.width);
}

}  // namespace carillon
