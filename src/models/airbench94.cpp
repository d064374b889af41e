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
#include "carillon/models/networks.h"
#include "kernels/elementwise/elementwise.h"
#include "src/models/airbench_layers.h"

namespace carillon {
namespace {

Value norm_gelu(Graph& graph, const std::string& name, Value x) {
  return gelu(graph, name + "/gelu", shifting_norm(graph, name + "/norm", x, 0.4f));
}

}  // namespace

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

}  // namespace carillon
