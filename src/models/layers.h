// Common building blocks of networks.
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
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/normalize_images/normalize_images.h"

namespace carillon {

using ByChannel = decltype(NormalizeImagesParams::mean);

/// Mean and standard deviation of each channel of CIFAR-10's training images, for pixels from 0 to 1.
inline constexpr ByChannel cifar10_mean{0.4914f, 0.4822f, 0.4465f};
inline constexpr ByChannel cifar10_deviation{0.2470f, 0.2435f, 0.2616f, 1.0f};

/// PyTorch's initial values for a sum of `fan_in` products: uniform in [-b, b], b = 1 / sqrt(fan_in).
inline Initializer fan_in_uniform(std::int64_t fan_in) {
  return {Initializer::Kind::uniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)))};
}

/// A truncated normal distribution. `deviation`: standard deviation after the truncation.
inline Initializer normal_after_cut(double deviation) {
  constexpr double kept = 0.87962566103423978;  // share of the deviation that remains after a cut at 2
  return {Initializer::Kind::truncated_normal, static_cast<float>(deviation / kept)};
}

/// Errors: usage (the images do not have 3 channels).
inline void check_has_colours(std::string_view network, const NetworkSettings& settings) {
  if (settings.image.channels == 3) return;
  fail(ExitCode::usage, "the network {} requires images with 3 channels; these images have {}", network,
       settings.image.channels);
}

/// Returns `form` with the normalisation of `settings`, if `settings` has one.
inline NormalizeImagesParams with_normalization(NormalizeImagesParams form, const NetworkSettings& settings) {
  if (settings.normalization) {
    std::ranges::copy(settings.normalization->mean, form.mean.begin());
    std::ranges::copy(settings.normalization->deviation, form.deviation.begin());
  }
  return form;
}

/// Adds the input op: normalised images.
inline Value normalized_input(Graph& graph, NormalizeImagesParams form, const NetworkSettings& settings) {
  form = with_normalization(form, settings);
  form.source = {settings.image.channels, settings.image.height, settings.image.width};
  return normalize_images(graph, "input", form);
}

struct ConvNormParams {
  std::int64_t filters = 0, kernel = 3, stride = 1;
  float l2_factor = 0.0f;
  std::optional<Initializer> weights = std::nullopt;  ///< nullopt: PyTorch's initial values
  float initial_scale = 1.0f;                         ///< initial scale (gamma) of the batch norm
};

/// Adds `<name>`, a convolution without biases that is padded by kernel / 2, and `<name>/norm`, its batch norm.
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

/// As conv_norm(), followed by a ReLU, `<name>/relu`.
inline Value conv_norm_relu(Graph& graph, const std::string& name, Value x, const ConvNormParams& params) {
  return relu(graph, name + "/relu", conv_norm(graph, name, x, params));
}

/// Adds a dense layer of each position, `<name>`, with biases. Initial values are timm's for transformers.
inline Value position_dense(Graph& graph, const std::string& name, Value x, std::int64_t units,
                            const NetworkSettings& settings) {
  return dense(
      graph, name, x,
      {.units = units, .weights = normal_after_cut(0.02), .l2_factor = settings.regularization, .per_position = true});
}

/// The place of a residual block among the `count` blocks of its network.
struct BlockPlace {
  int index = 0, count = 1;
};

/// Adds stochastic depth, `<name>/drop_path`, to the branch of a residual block. The rate grows in equal steps from 0
/// in the first block to NetworkSettings::drop_path in the last one, as in timm.
inline Value drop_branch(Graph& graph, const std::string& name, Value branch, const BlockPlace& place,
                         const NetworkSettings& settings) {
  const float share = place.count > 1 ? static_cast<float>(place.index) / static_cast<float>(place.count - 1) : 1.0f;
  return drop_path(graph, name + "/drop_path", branch, {.rate = settings.drop_path * share});
}

/// Adds the end of a residual block: relu(y + x), or relu(y + conv_norm(x)) if a projection is given. The ops are
/// `<name>/projection`, `<name>/sum` and `<name>/relu`.
inline Value end_of_residual_block(Graph& graph, const std::string& name, Value x, Value y,
                                   const std::optional<ConvNormParams>& projection) {
  if (projection) x = conv_norm(graph, name + "/projection", x, *projection);
  return relu(graph, name + "/relu", add(graph, name + "/sum", y, x));
}

}  // namespace carillon
