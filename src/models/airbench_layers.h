// What the airbench networks are made of (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024).
#pragma once

#include <string>

#include "kernels/activation/activation.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/scale/scale.h"
#include "src/models/layers.h"
#include "src/models/whitening.h"

namespace carillon {

/// The records that the whitening filters are computed from.
inline constexpr std::int64_t whitening_records = 5000;

/// "whiten": whitening 2x2 filters, which do not train, with biases that do; GELU behind.
inline Value whiten(Graph& graph, Value x) {
  const std::int64_t channels = graph.shape(x)[3];
  x = conv2d(graph, "whiten", x,
             {.filters = 8 * channels, .kernel = 2, .padding = Padding::valid, .trains_weights = false});
  return gelu(graph, "whiten/gelu", x);
}

inline ValuesOfData whitening_values(NormalizeImagesParams input, const ImageShape& image) {
  input.source = {image.channels, image.height, image.width};
  const WhiteningParams params{.input = input, .kernel = 2, .epsilon = 5e-4};
  return {.variable = "whiten/weights", .max_records = whitening_records, .compute = [params](const auto& images) {
            return whitening_filters(patch_covariance(images, params), params.epsilon);
          }};
}

/// A 3x3 convolution without biases that passes its input on at first, besides filters of PyTorch's.
inline Value dirac_conv(Graph& graph, const std::string& name, Value x, std::int64_t filters, float l2_factor) {
  Initializer weights = fan_in_uniform(9 * graph.shape(x)[3]);
  weights.dirac = true;
  return conv2d(graph, name, x,
                {.filters = filters,
                 .kernel = 3,
                 .padding = Padding::symmetric(1),
                 .weights = weights,
                 .biases = std::nullopt,
                 .l2_factor = l2_factor});
}

/// Batch norm that shifts and does not scale. `momentum`: the share of a new batch in its running statistics.
inline Value shifting_norm(Graph& graph, const std::string& name, Value x, float momentum) {
  return batch_norm(graph, name, x, {.epsilon = 1e-12f, .momentum = momentum, .trains_scale = false});
}

/// Windows without overlap; what is left of the last ones is passed over.
inline Value pool(Graph& graph, const std::string& name, Value x, std::int64_t window) {
  return max_pool(graph, name, x, {.window = window, .stride = window, .padding = Padding::valid});
}

/// The largest of each channel's values to `class_count` logits, without biases, divided by 9.
inline Value logits_of_largest(Graph& graph, Value x, const NetworkSettings& settings) {
  x = pool(graph, "pool", x, graph.shape(x)[1]);
  x = dense(graph, "logits", x,
            {.units = settings.class_count,
             .weights = fan_in_uniform(graph.shape(x).elements_per_sample()),
             .biases = std::nullopt,
             .l2_factor = settings.regularization});
  return scale(graph, "logits/scale", x, 1.0f / 9.0f);
}

/// Errors: usage.
inline void check_takes_images(std::string_view network, const NetworkSettings& settings) {
  check_has_colours(network, settings);
  if (settings.image.height == settings.image.width && settings.image.height >= 12 && settings.image.height <= 128) {
    return;
  }
  fail(ExitCode::usage, "the network {} takes square images of 12 x 12 to 128 x 128; these are {} x {}", network,
       settings.image.height, settings.image.width);
}

}  // namespace carillon
