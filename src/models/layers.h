// Building blocks of networks: initial values, inputs, convolutions with batch norm, residual blocks, the parts of
// networks for ImageNet, and whitening filters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/models/network.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/pool/pool.h"

namespace carillon {

using ByChannel = decltype(ImageInputParams::mean);

/// Mean and standard deviation of each channel of CIFAR-10's training images, for pixels from 0 to 1.
inline constexpr ByChannel cifar10_mean{0.4914f, 0.4822f, 0.4465f};
inline constexpr ByChannel cifar10_deviation{0.2470f, 0.2435f, 0.2616f, 1.0f};

/// PyTorch's initial values for an output that is the sum of `fan_in` products: uniform in [-b, b], with b = 1 /
/// sqrt(fan_in).
inline Initializer fan_in_uniform(std::int64_t fan_in) {
  return {Initializer::Kind::uniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)))};
}

/// A truncated normal distribution. `deviation`: standard deviation after the truncation.
inline Initializer normal_after_cut(double deviation) {
  constexpr double kept = 0.87962566103423978;  // standard deviation of a unit normal distribution that is cut at 2
  return {Initializer::Kind::truncated_normal, static_cast<float>(deviation / kept)};
}

/// Checks that the images have colours. Errors: usage (the images do not have 3 channels).
inline void check_has_colours(std::string_view network, const NetworkSettings& settings) {
  if (settings.image.channels == 3) return;
  fail(ExitCode::usage, "the network {} requires images with 3 channels; these images have {}", network,
       settings.image.channels);
}

/// The preprocessing of TensorFlow's CIFAR-10 tutorial.
inline const ImageInputParams tutorial_input{.values = PixelValues::standardized,
                                             .brightness = 63.0f,
                                             .contrast = {0.2f, 1.8f},
                                             .crop_height = 24,
                                             .crop_width = 24,
                                             .mirroring = ImageMirroring::random};

/// Returns the parameters of an input op that scales the images of `settings`.
inline ImageInputParams scaled_images(const NetworkSettings& settings) {
  const ImageShape& image = settings.image;
  return {.sample = {image.height, image.width, image.channels}, .scale = settings.pixel_scale};
}

/// Returns `form` with the image shape of `settings` and with normalised pixels. A normalisation in `settings` replaces
/// the normalisation in `form`.
inline ImageInputParams normalized_images(ImageInputParams form, const NetworkSettings& settings) {
  form.sample = scaled_images(settings).sample;
  form.values = PixelValues::normalized;
  if (settings.normalization) {
    std::ranges::copy(settings.normalization->mean, form.mean.begin());
    std::ranges::copy(settings.normalization->deviation, form.deviation.begin());
  }
  return form;
}

struct ConvNormParams {
  std::int64_t filters = 0, kernel = 3, stride = 1;
  float l2_factor = 0.0f;
  std::optional<Initializer> weights = std::nullopt;  ///< nullopt: PyTorch's initial values
  float initial_scale = 1.0f;                         ///< initial scale (gamma) of the batch norm
};

/// Adds a convolution `<name>` and its batch norm `<name>/norm`. The convolution has no biases and is padded by kernel
/// / 2.
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

/// Adds the ops of conv_norm(), and a ReLU `<name>/relu` after them.
inline Value conv_norm_relu(Graph& graph, const std::string& name, Value x, const ConvNormParams& params) {
  return relu(graph, name + "/relu", conv_norm(graph, name, x, params));
}

/// Adds a dense layer `<name>` with biases, which is applied to each position. The initial values are the same as in
/// timm's transformers.
inline Value position_dense(Graph& graph, const std::string& name, Value x, std::int64_t units,
                            const NetworkSettings& settings) {
  return dense(
      graph, name, x,
      {.units = units, .weights = normal_after_cut(0.02), .l2_factor = settings.regularization, .per_position = true});
}

/// The number of a residual block, and the number of residual blocks in its network.
struct BlockPlace {
  int index = 0, count = 1;
};

/// Adds stochastic depth, `<name>/drop_path`, to the branch of a residual block. As in timm, the rate grows in equal
/// steps: from 0 in the first block to NetworkSettings::drop_path in the last block.
inline Value drop_branch(Graph& graph, const std::string& name, Value branch, const BlockPlace& place,
                         const NetworkSettings& settings) {
  const float share = place.count > 1 ? static_cast<float>(place.index) / static_cast<float>(place.count - 1) : 1.0f;
  return drop_path(graph, name + "/drop_path", branch, {.rate = settings.drop_path * share});
}

/// Adds the end of a residual block: relu(y + conv_norm(x)) if a projection is given, otherwise relu(y + x). The ops
/// are `<name>/projection`, `<name>/sum` and `<name>/relu`.
inline Value end_of_residual_block(Graph& graph, const std::string& name, Value x, Value y,
                                   const std::optional<ConvNormParams>& projection) {
  if (projection) x = conv_norm(graph, name + "/projection", x, *projection);
  return relu(graph, name + "/relu", add(graph, name + "/sum", y, x));
}

/// Adds the last three ops of networks for fast training on CIFAR-10: the maximum of each channel of `x`, which is a
/// square image; a dense layer without biases; and a multiplication by `factor`. The ops are `pool`, `logits` and
/// `logits/scale`.
inline Value logits_of_largest(Graph& graph, Value x, float factor, const NetworkSettings& settings) {
  x = max_pool(graph, "pool", x, {});
  x = dense(graph, "logits", x,
            {.units = settings.outputs,
             .weights = fan_in_uniform(graph.shape(x).elements_per_sample()),
             .biases = std::nullopt,
             .l2_factor = settings.regularization});
  return scale(graph, "logits/scale", x, factor);
}

// Parts of the networks for ImageNet.
//
// Initial values are truncated normal, cut at two standard deviations. Convolutions have variance 2 / (kernel^2 *
// filters), logits have deviation 0.01. The initial gamma of the last batch norm of a block is 0, so the block starts
// as the identity. Source: Goyal and others, "Accurate, large minibatch SGD", 2017, section 5.1.

inline ConvNormParams imagenet_conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(kernel * kernel * filters));
  return {.filters = filters,
          .kernel = kernel,
          .stride = stride,
          .l2_factor = l2_factor,
          .weights = normal_after_cut(deviation)};
}

/// Adds the input op, which normalises images with ImageNet's means and deviations.
inline Value imagenet_input(Graph& graph, const NetworkSettings& settings) {
  const ImageInputParams form{.mean = {0.485f, 0.456f, 0.406f},
                              .deviation = {0.229f, 0.224f, 0.225f, 1.0f},
                              .padding = 4,
                              .mirroring = ImageMirroring::random};
  return image_input(graph, "input", normalized_images(form, settings));
}

/// Adds the input op, the 7x7 stem and the first pooling: [224, 224, 3] -> [56, 56, 64].
inline Value imagenet_stem(Graph& graph, const NetworkSettings& settings) {
  Value x = imagenet_input(graph, settings);
  x = conv_norm_relu(graph, "stem", x, imagenet_conv(64, 7, 2, settings.regularization));
  return max_pool(graph, "pool", x, {.window = 3, .stride = 2, .padding = Padding::symmetric(1)});
}

/// Adds the average over each image, and the logits with biases.
inline Value imagenet_logits(Graph& graph, Value x, const NetworkSettings& settings) {
  x = global_avg_pool(graph, "average", x);
  return dense(graph, "logits", x,
               {.units = settings.outputs, .weights = normal_after_cut(0.01), .l2_factor = settings.regularization});
}

/// Checks the shape of the images. Errors: usage (the images have no colours, or are smaller than 32 x 32).
inline void check_imagenet_images(std::string_view network, const NetworkSettings& settings) {
  constexpr std::int64_t least_side = 32;
  check_has_colours(network, settings);
  if (settings.image.height >= least_side && settings.image.width >= least_side) return;
  fail(ExitCode::usage, "the network {} requires images of at least {} x {}; these images are {} x {}", network,
       least_side, least_side, settings.image.height, settings.image.width);
}

// Whitening: computes filters for a first convolution. These filters make the components of image patches uncorrelated,
// each with variance 1.
//
//   P [n, p]   all kernel x kernel patches, stride 1, of the normalised images; p = kernel^2 channels
//   C = P^T P / n = sum over i of l_i v_i v_i^T        mean not subtracted; l_1 >= l_2 >= ..., v_i of length 1
//   filter i = v_i / sqrt(l_i + epsilon), i < p        filter p + i = -filter i
//
// The sign of an eigenvector is arbitrary. This code makes the first large component positive: the first component with
// at least half the magnitude of the largest component.
//
// Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, after Page, "How to train your ResNet",
// 2018.

struct WhiteningParams {
  ImageInputParams input;  ///< shape and normalisation of the images
  std::int64_t kernel = 2;
  double epsilon = 5e-4;  ///< added to each eigenvalue; above 0
};

/// Returns C, row-major [p, p]. Each element of `images` is uint8 [height, width, channels], as in records. The
/// components of a patch are in the order [row, column, channel].
std::vector<double> patch_covariance(std::span<const std::uint8_t* const> images, const WhiteningParams& params);

/// Returns the filters of C, [kernel, kernel, channels, 2 p]. Errors: failed (C is not finite).
std::vector<float> whitening_filters(const std::vector<double>& covariance, double epsilon);

}  // namespace carillon
