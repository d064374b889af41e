// The blocks of the ResNets for ImageNet. Source: He, Zhang, Ren, Sun, "Deep residual learning for image recognition",
// 2016, table 1.
#pragma once

#include <array>
#include <string_view>

namespace carillon {

struct ResNetBlocks {
  std::string_view network;
  std::array<int, 4> counts;     ///< number of blocks, by stage
  bool has_bottlenecks = false;  ///< false: basic blocks
};

inline constexpr std::array<ResNetBlocks, 5> imagenet_resnets{{{"resnet18", {2, 2, 2, 2}, false},
                                                               {"resnet34", {3, 4, 6, 3}, false},
                                                               {"resnet50", {3, 4, 6, 3}, true},
                                                               {"resnet101", {3, 4, 23, 3}, true},
                                                               {"resnet152", {3, 8, 36, 3}, true}}};

}  // namespace carillon
