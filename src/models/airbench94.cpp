// airbench94 (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024). 1,971,640 parameters for ten classes:
//
//   layer               output       weights
//   input               32x32x3                    mirrored in turn; padded by 2, reflecting, and cropped
//   whiten + GELU       31x31x24     2x2x3x24      whitening filters, which do not train; biases
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
//   logits              classes      256x10        without biases, divided by 9
//
// Norms shift and do not scale; a batch has 0.4 in their running statistics. Convolutions begin as the identity.
#include "src/models/airbench_layers.h"
#include "src/models/networks.h"

namespace carillon {
namespace {

const NormalizeImagesParams input_form{.mean = {0.4914f, 0.4822f, 0.4465f},
                                       .deviation = {0.2470f, 0.2435f, 0.2616f, 1.0f},
                                       .padding = 2,
                                       .padding_mode = ImagePadding::reflect,
                                       .mirroring = ImageMirroring::alternating};

Value norm_gelu(Graph& graph, const std::string& name, Value x) {
  return gelu(graph, name + "/gelu", shifting_norm(graph, name + "/norm", x, 0.4f));
}

}  // namespace

Network airbench94_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph, Purpose purpose) {
    const auto group = [&](const std::string& name, Value x, std::int64_t filters) {
      x = dirac_conv(graph, name + "/conv1", x, filters, settings.regularization);
      x = norm_gelu(graph, name + "/conv1", pool(graph, name + "/pool", x, 2));
      x = dirac_conv(graph, name + "/conv2", x, filters, settings.regularization);
      return norm_gelu(graph, name + "/conv2", x);
    };
    Value x = normalized_input(graph, input_form, settings, purpose);
    x = whiten(graph, x);
    x = group("group1", x, 64);
    x = group("group2", x, 256);
    x = group("group3", x, 256);
    return logits_of_largest(graph, x, settings);
  };
  check_takes_images("airbench94", settings);
  return {.name = "airbench94",
          .image = settings.image,
          .build_layers = layers,
          .values_of_data = {whitening_values(input_form, settings.image)}};
}

}  // namespace carillon
