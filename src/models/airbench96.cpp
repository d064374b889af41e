// airbench96 (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024). 9,915,704 parameters for ten classes:
//
//   layer               output       weights
//   input               32x32x3                    mirrored in turn; cropped (padded by 4, reflecting), 12x12 cut out
//   whiten + GELU       31x31x24     2x2x3x24      whitening filters, which do not train; biases
//   group1/conv1        31x31x128    3x3x24x128
//     pool  max 2x2     15x15x128                  then norm, GELU: x0
//   group1/conv2        15x15x128    3x3x128x128   norm, GELU
//   group1/conv3        15x15x128    3x3x128x128   norm; GELU of the sum with x0
//   group2              7x7x384                    the same with 384 filters
//   group3              3x3x512                    the same with 512 filters
//   pool    max 3x3     512
//   logits              classes      512x10        without biases, divided by 9
//
// Norms shift and do not scale; a batch has 0.1 in their running statistics. Convolutions begin as the identity.
#include "kernels/add/add.h"
#include "src/models/airbench_layers.h"
#include "src/models/networks.h"

namespace carillon {
namespace {

const NormalizeImagesParams input_form{.mean = {0.4914f, 0.4822f, 0.4465f},
                                       .deviation = {0.2470f, 0.2435f, 0.2616f, 1.0f},
                                       .padding = 4,
                                       .padding_mode = ImagePadding::reflect,
                                       .mirroring = ImageMirroring::alternating,
                                       .cutout = 12};

}  // namespace

Network airbench96_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph, Purpose purpose) {
    const auto conv = [&](const std::string& name, Value x, std::int64_t filters) {
      return dirac_conv(graph, name, x, filters, settings.regularization);
    };
    const auto norm = [&](const std::string& name, Value x) { return shifting_norm(graph, name + "/norm", x, 0.1f); };
    const auto group = [&](const std::string& name, Value x, std::int64_t filters) {
      const std::string conv1 = name + "/conv1", conv2 = name + "/conv2", conv3 = name + "/conv3";
      x = norm(conv1, pool(graph, name + "/pool", conv(conv1, x, filters), 2));
      x = gelu(graph, conv1 + "/gelu", x);
      Value y = gelu(graph, conv2 + "/gelu", norm(conv2, conv(conv2, x, filters)));
      y = norm(conv3, conv(conv3, y, filters));
      return gelu(graph, name + "/gelu", add(graph, name + "/sum", y, x));
    };
    Value x = normalized_input(graph, input_form, settings, purpose);
    x = whiten(graph, x);
    x = group("group1", x, 128);
    x = group("group2", x, 384);
    x = group("group3", x, 512);
    return logits_of_largest(graph, x, settings);
  };
  check_takes_images("airbench96", settings);
  return {.name = "airbench96",
          .image = settings.image,
          .build_layers = layers,
          .values_of_data = {whitening_values(input_form, settings.image)}};
}

}  // namespace carillon
