// Residual stages: the four stages of a ResNet. Source: He, Zhang, Ren, Sun, "Deep residual learning for image
// recognition", 2016; the stride of a bottleneck is in its 3x3 convolution (v1.5, as in torchvision).
//
//   block        layers                                   output
//   basic        3x3 f, 3x3 f                             f channels
//   bottleneck   1x1 f, 3x3 f, 1x1 4f                     4f channels
//
// Stage s has f = 32 * 2^s filters. The first block of stages 2 to 4 has stride 2. A batch norm follows each
// convolution. A ReLU follows each batch norm except the last one, and follows the sum with the block's input. If the
// shapes of input and output differ, a 1x1 convolution and a batch norm project the input. Names:
// "stage1/block1/conv1", ...
#pragma once

#include <array>

#include "src/models/layers.h"

namespace carillon {

struct ResidualStages {
  std::array<int, 4> block_counts{};
  bool has_bottlenecks = false;
  ConvNormParams (*conv)(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) = nullptr;
  float last_scale = 1.0f;  ///< initial gamma of a block's last batch norm
};

/// Adds the stages to the graph. `x`: the output of the stem.
Value residual_stages(Graph& graph, Value x, const ResidualStages& stages, const NetworkSettings& settings);

}  // namespace carillon
