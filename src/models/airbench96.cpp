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
#include "carillon/models/networks.h"
#include "kernels/elementwise/elementwise.h"
#include "src/models/airbench_layers.h"

namespace carillon {

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
