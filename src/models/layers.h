// What today's networks are made of, with PyTorch's initial values.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "carillon/core/error.h"
#include "carillon/models/network.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/normalize_images/normalize_images.h"

namespace carillon {

/// PyTorch's initial values of what sums `fan_in` products: uniform between -1 / sqrt(fan_in) and that.
inline Initializer fan_in_uniform(std::int64_t fan_in) {
  return {Initializer::Kind::uniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)))};
}

/// Errors: usage.
inline void check_has_colours(std::string_view network, const NetworkSettings& settings) {
  if (settings.image.channels == 3) return;
  fail(ExitCode::usage, "the network {} takes images of 3 channels; these have {}", network, settings.image.channels);
}

/// `form` with the normalisation that `settings` name, if they do.
inline NormalizeImagesParams with_normalization(NormalizeImagesParams form, const NetworkSettings& settings) {
  if (settings.normalization) {
    std::ranges::copy(settings.normalization->mean, form.mean.begin());
    std::ranges::copy(settings.normalization->deviation, form.deviation.begin());
  }
  return form;
}

/// The images, distorted where `settings` say so, and never for evaluation.
inline Value normalized_input(Graph& graph, NormalizeImagesParams form, const NetworkSettings& settings,
                              Purpose purpose) {
  form = with_normalization(form, settings);
  form.source = {settings.image.channels, settings.image.height, settings.image.width};
  form.distort = settings.distort && purpose != Purpose::evaluation;
  form.record_count = settings.record_count;
  form.seed = settings.seed;
  return normalize_images(graph, "input", form);
}

struct ConvNormParams {
  std::int64_t filters = 0, kernel = 3, stride = 1;
  float l2_factor = 0.0f;
  std::optional<Initializer> weights = std::nullopt;  ///< nothing: PyTorch's
  float initial_scale = 1.0f;                         ///< of the batch norm
};

/// A convolution without biases, padded by half its kernel, `<name>`; and its batch norm, `<name>/norm`.
inline Value conv_norm(Graph& graph, const std::string& name, Value x, const ConvNormParams& params) {
  const std::int64_t channels = graph.shape(x)[3];
  x = conv2d(graph, name, x,
             {.filters = params.filters,
              .kernel = params.kernel,
              .stride = params.stride,
              .padding = Padding::symmetric(params.kernel / 2),
              .weights = params.weights.value_or(fan_in_uniform(params.kernel * params.kernel * channels)),
              .biases = std::nullopt,
              .l2_factor = params.l2_factor});
  return batch_norm(graph, name + "/norm", x, {.initial_scale = params.initial_scale});
}

/// The same with a ReLU behind it, `<name>/relu`.
inline Value conv_norm_relu(Graph& graph, const std::string& name, Value x, const ConvNormParams& params) {
  return relu(graph, name + "/relu", conv_norm(graph, name, x, params));
}

/// What a residual block makes of its input x, y, added to x, `<name>/sum`, or to the projection of x, if one is given,
/// `<name>/projection`; a ReLU behind.
inline Value end_of_residual_block(Graph& graph, const std::string& name, Value x, Value y,
                                   const std::optional<ConvNormParams>& projection) {
  if (projection) x = conv_norm(graph, name + "/projection", x, *projection);
  return relu(graph, name + "/relu", add(graph, name + "/sum", y, x));
}

}  // namespace carillon
