// ResNet-18 in the form for small images (He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016, as
// pytorch-cifar builds it: a 3x3 stem and no first pooling). 11,173,962 parameters for ten classes:
//
//   layer        output       blocks   a block
//   input        32x32x3               padded by 4, cropped, mirrored; normalised by CIFAR-10's means
//   stem + ReLU  32x32x64              3x3 convolution, batch norm
//   stage1       32x32x64     2        3x3 64,  3x3 64
//   stage2       16x16x128    2        3x3 128, 3x3 128   the first with stride 2
//   stage3       8x8x256      2        3x3 256, 3x3 256   the first with stride 2
//   stage4       4x4x512      2        3x3 512, 3x3 512   the first with stride 2
//   average      512
//   logits       classes               with biases
//
// Batch norm behind each convolution; ReLU behind the first of a block and behind its sum with the block's input, which
// a 1x1 convolution and batch norm project where the shapes differ.
#include "carillon/models/networks.h"
#include "kernels/avg_pool/avg_pool.h"
#include "src/models/cifar10_pixels.h"
#include "src/models/layers.h"

namespace carillon {
namespace {

/// pytorch-cifar's deviations, which are means of those within an image.
const NormalizeImagesParams input_form{
    .mean = cifar10_mean, .deviation = {0.2023f, 0.1994f, 0.2010f, 1.0f}, .padding = 4};

Value basic_block(Graph& graph, const std::string& name, Value x, const ConvNormParams& params) {
  ConvNormParams second = params;
  second.stride = 1;
  std::optional<ConvNormParams> projection;
  if (params.stride != 1 || graph.shape(x)[3] != params.filters) {
    projection = params;
    projection->kernel = 1;
  }
  Value y = conv_norm_relu(graph, name + "/conv1", x, params);
  y = conv_norm(graph, name + "/conv2", y, second);
  return end_of_residual_block(graph, name, x, y, projection);
}

}  // namespace

Network resnet18_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph, Purpose purpose) {
    const float decay = settings.regularization;
    Value x = normalized_input(graph, input_form, settings, purpose);
    x = conv_norm_relu(graph, "stem", x, {.filters = 64, .l2_factor = decay});
    for (const int stage : {1, 2, 3, 4}) {
      const std::int64_t filters = std::int64_t{32} << stage;
      for (const int block : {1, 2}) {
        x = basic_block(graph, "stage" + std::to_string(stage) + "/block" + std::to_string(block), x,
                        {.filters = filters, .stride = stage > 1 && block == 1 ? 2 : 1, .l2_factor = decay});
      }
    }
    x = global_avg_pool(graph, "average", x);
    const Initializer initial = fan_in_uniform(graph.shape(x).elements_per_sample());
    return dense(graph, "logits", x,
                 {.units = settings.outputs, .weights = initial, .biases = initial, .l2_factor = decay});
  };
  check_has_colours("resnet18", settings);
  return {.name = "resnet18", .image = settings.image, .build_layers = layers};
}

}  // namespace carillon
