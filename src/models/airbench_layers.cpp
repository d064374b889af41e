#include "src/models/airbench_layers.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/max_pool/max_pool.h"
#include "src/models/cifar10_pixels.h"
#include "src/models/layers.h"
#include "src/models/whitening.h"

namespace carillon {
namespace {

/// The whitening filters are computed from this many records.
constexpr std::int64_t whitening_records = 5000;

NormalizeImagesParams input_form(const AirbenchParams& params) {
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

ValuesOfData whitening_values(NormalizeImagesParams input, const ImageShape& image) {
  input.source = {image.channels, image.height, image.width};
  const WhiteningParams params{.input = input, .kernel = 2, .epsilon = 5e-4};
  return {.variable = "whiten/weights", .max_records = whitening_records, .compute = [params](const auto& images) {
            return whitening_filters(patch_covariance(images, params), params.epsilon);
          }};
}

Value logits_of_largest(Graph& graph, Value x, const NetworkSettings& settings) {
  x = max_pool(graph, "pool", x, {});
  x = dense(graph, "logits", x,
            {.units = settings.outputs,
             .weights = fan_in_uniform(graph.shape(x).elements_per_sample()),
             .biases = std::nullopt,
             .l2_factor = settings.regularization});
  return scale(graph, "logits/scale", x, 1.0f / 9.0f);
}

void check_takes_images(const std::string& network, const NetworkSettings& settings) {
  check_has_colours(network, settings);
  if (settings.image.height == settings.image.width && settings.image.height >= 12 && settings.image.height <= 128) {
    return;
  }
  fail(ExitCode::usage, "the network {} requires square images of 12 x 12 to 128 x 128; these images are {} x {}",
       network, settings.image.height, settings.image.width);
}

}  // namespace

Network airbench_network(const AirbenchParams& params, const NetworkSettings& settings) {
  const auto layers = [params, settings](Graph& graph) {
    Value x = normalized_input(graph, input_form(params), settings);
    x = whiten(graph, x);
    x = params.group(graph, "group1", x, params.filters[0]);
    x = params.group(graph, "group2", x, params.filters[1]);
    x = params.group(graph, "group3", x, params.filters[2]);
    return logits_of_largest(graph, x, settings);
  };
  check_takes_images(params.name, settings);
  Network network = make_network(params.name, settings, layers);
  network.values_of_data = {whitening_values(with_normalization(input_form(params), settings), settings.image)};
  return network;
}

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

Value shifting_norm(Graph& graph, const std::string& name, Value x, float momentum) {
  return batch_norm(graph, name, x, {.epsilon = 1e-12f, .momentum = momentum, .trains_scale = false});
}

Value pool(Graph& graph, const std::string& name, Value x, std::int64_t window) {
  return max_pool(graph, name, x, {.window = window, .stride = window, .padding = Padding::valid});
}

}  // namespace carillon
