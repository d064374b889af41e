// The airbench networks: airbench94, airbench96. Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU",
// 2024.
//
//   input               mirrored in alternate epochs; padded by reflection and cropped; a square is cut out
//   whiten + GELU       2x2 whitening filters (not trained), 8 per channel; trained biases
//   group1, 2, 3        different in each network
//   pool                maximum of each channel
//   logits              no biases; divided by 9
#include <array>
#include <functional>
#include <string>

#include "carillon/models/network.h"
#include "carillon/models/networks.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/pool/pool.h"
#include "src/models/layers.h"

namespace carillon {
namespace {

/// The properties in which the airbench networks differ.
struct AirbenchParams {
  std::string name;
  std::int64_t padding = 0, cutout = 0;  ///< in pixels (kernels/image_input)
  std::array<std::int64_t, 3> filters = {};
  /// Adds the layers of group `name`.
  std::function<Value(Graph& graph, const std::string& name, Value x, std::int64_t filters)> group;
};

/// The number of records from which the whitening filters are computed.
constexpr std::int64_t whitening_records = 5000;

ImageInputParams input_form(const AirbenchParams& params) {
  return {.mean = cifar10_mean,
          .deviation = cifar10_deviation,
          .padding = params.padding,
          .padding_mode = ImagePadding::reflect,
          .mirroring = ImageMirroring::alternating,
          .cutout = params.cutout};
}

Value whiten(Graph& graph, Value x) {
  const std::int64_t channels = graph.shape(x)[3];
  x = conv2d(graph, "whiten", x,
             {.filters = 8 * channels, .kernel = 2, .padding = Padding::valid, .trains_weights = false});
  return gelu(graph, "whiten/gelu", x);
}

ValuesOfData whitening_values(const ImageInputParams& input) {
  const WhiteningParams params{.input = input, .kernel = 2, .epsilon = 5e-4};
  return {.variable = "whiten/weights", .max_records = whitening_records, .compute = [params](const auto& images) {
            return whitening_filters(patch_covariance(images, params), params.epsilon);
          }};
}

void check_takes_images(const std::string& network, const NetworkSettings& settings) {
  check_has_colours(network, settings);
  if (settings.image.height == settings.image.width && settings.image.height >= 12 && settings.image.height <= 128) {
    return;
  }
  fail(ExitCode::usage, "the network {} requires square images of 12 x 12 to 128 x 128; these images are {} x {}",
       network, settings.image.height, settings.image.width);
}

/// Makes an airbench network. Requires square images with 3 channels and 12 to 128 rows. Errors: usage (the images do
/// not meet these requirements).
Network airbench_network(const AirbenchParams& params, const NetworkSettings& settings) {
  const auto layers = [params, settings](Graph& graph) {
    Value x = image_input(graph, "input", normalized_images(input_form(params), settings));
    x = whiten(graph, x);
    x = params.group(graph, "group1", x, params.filters[0]);
    x = params.group(graph, "group2", x, params.filters[1]);
    x = params.group(graph, "group3", x, params.filters[2]);
    return logits_of_largest(graph, x, 1.0f / 9.0f, settings);
  };
  check_takes_images(params.name, settings);
  Network network = make_network(params.name, settings, layers);
  network.values_of_data = {whitening_values(normalized_images(input_form(params), settings))};
  return network;
}

/// Adds a 3x3 convolution without biases. The initial values of its first filters copy the input channels. The other
/// filters have PyTorch's initial values.
Value dirac_conv(Graph& graph, const std::string& name, Value x, std::int64_t filters, float l2_factor) {
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

/// Adds a batch norm that has a trained shift and no trained scale. `momentum`: weight of the new batch in the running
/// statistics.
Value shifting_norm(Graph& graph, const std::string& name, Value x, float momentum) {
  return batch_norm(graph, name, x, {.epsilon = 1e-12f, .momentum = momentum, .trains_scale = false});
}

/// Adds max pooling with windows that do not overlap. Ignores incomplete windows at the bottom and right edges.
Value pool(Graph& graph, const std::string& name, Value x, std::int64_t window) {
  return max_pool(graph, name, x, {.window = window, .stride = window, .padding = Padding::valid});
}

Value norm_gelu(Graph& graph, const std::string& name, Value x) {
  return gelu(graph, name + "/gelu", shifting_norm(graph, name + "/norm", x, 0.4f));
}

}  // namespace

// airbench94. Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024. 1,971,640 parameters for ten
// classes.
//
//   layer               output       weights
//   input               32x32x3                    mirrored in alternate epochs; padded by 2 (reflection), cropped
//   whiten + GELU       31x31x24     2x2x3x24      whitening filters (not trained); trained biases
//   group1/conv1        31x31x64     3x3x24x64
//     pool  max 2x2     15x15x64                   then norm, GELU
//   group1/conv2        15x15x64     3x3x64x64     norm, GELU
//   group2/conv1        15x15x256    3x3x64x256
//     pool  max 2x2     7x7x256                    norm, GELU
//   group2/conv2        7x7x256      3x3x256x256   norm, GELU
//   group3/conv1        7x7x256      3x3x256x256
//     pool  max 2x2     3x3x256                    norm, GELU
//   group3/conv2        3x3x256      3x3x256x256   norm, GELU
//   pool    max 3x3     256
//   logits              classes      256x10        no biases; divided by 9
//
// Batch norms train a shift and no scale. A new batch has weight 0.4 in the running statistics. The initial values of
// the first filters of each 3x3 convolution copy the convolution's input channels.
Network airbench94_network(const NetworkSettings& settings) {
  const float decay = settings.regularization;
  const auto group = [decay](Graph& graph, const std::string& name, Value x, std::int64_t filters) {
    const std::string conv1 = name + "/conv1", conv2 = name + "/conv2";
    x = pool(graph, name + "/pool", dirac_conv(graph, conv1, x, filters, decay), 2);
    x = norm_gelu(graph, conv1, x);
    return norm_gelu(graph, conv2, dirac_conv(graph, conv2, x, filters, decay));
  };
  return airbench_network({.name = "airbench94", .padding = 2, .filters = {64, 256, 256}, .group = group}, settings);
}

// airbench96. Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024. 9,915,704 parameters for ten
// classes.
//
//   layer               output       weights
//   input               32x32x3                    as airbench94, padded by 4; 12x12 cut out
//   whiten + GELU       31x31x24     2x2x3x24      whitening filters (not trained); trained biases
//   group1/conv1        31x31x128    3x3x24x128
//     pool  max 2x2     15x15x128                  then norm, GELU: x0
//   group1/conv2        15x15x128    3x3x128x128   norm, GELU
//   group1/conv3        15x15x128    3x3x128x128   norm; GELU of the sum with x0
//   group2              7x7x384                    as group1, with 384 filters
//   group3              3x3x512                    as group1, with 512 filters
//   pool    max 3x3     512
//   logits              classes      512x10        no biases; divided by 9
//
// Batch norms train a shift and no scale. A new batch has weight 0.1 in the running statistics. The initial values of
// the first filters of each 3x3 convolution copy the convolution's input channels.
Network airbench96_network(const NetworkSettings& settings) {
  const float decay = settings.regularization;
  const auto group = [decay](Graph& graph, const std::string& name, Value x, std::int64_t filters) {
    const auto norm = [&](const std::string& conv, Value y) { return shifting_norm(graph, conv + "/norm", y, 0.1f); };
    const std::string conv1 = name + "/conv1", conv2 = name + "/conv2", conv3 = name + "/conv3";
    x = pool(graph, name + "/pool", dirac_conv(graph, conv1, x, filters, decay), 2);
    x = gelu(graph, conv1 + "/gelu", norm(conv1, x));
    Value y = norm(conv2, dirac_conv(graph, conv2, x, filters, decay));
    y = gelu(graph, conv2 + "/gelu", y);
    y = norm(conv3, dirac_conv(graph, conv3, y, filters, decay));
    return gelu(graph, name + "/gelu", add(graph, name + "/sum", y, x));
  };
  return airbench_network(
      {.name = "airbench96", .padding = 4, .cutout = 12, .filters = {128, 384, 512}, .group = group}, settings);
}

}  // namespace carillon
