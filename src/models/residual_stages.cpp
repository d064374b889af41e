#include "src/models/residual_stages.h"

#include <fmt/format.h>

#include <numeric>

namespace carillon {
namespace {

constexpr std::int64_t expansion = 4;  ///< factor of the filters in a bottleneck's last convolution

struct Block {
  std::string name;
  std::int64_t filters = 0, stride = 1;
  BlockPlace place;
};

Value residual_block(Graph& graph, Value x, const Block& block, const ResidualStages& stages,
                     const NetworkSettings& settings) {
  const auto conv = [&](std::int64_t filters, std::int64_t kernel, std::int64_t stride) {
    return stages.conv(filters, kernel, stride, settings.regularization);
  };
  const std::int64_t wide = stages.has_bottlenecks ? expansion * block.filters : block.filters;
  ConvNormParams last = stages.has_bottlenecks ? conv(wide, 1, 1) : conv(wide, 3, 1);
  last.initial_scale = stages.last_scale;
  Value y = x;
  if (stages.has_bottlenecks) {
    y = conv_norm_relu(graph, block.name + "/conv1", y, conv(block.filters, 1, 1));
    y = conv_norm_relu(graph, block.name + "/conv2", y, conv(block.filters, 3, block.stride));
    y = conv_norm(graph, block.name + "/conv3", y, last);
  } else {
    y = conv_norm_relu(graph, block.name + "/conv1", y, conv(block.filters, 3, block.stride));
    y = conv_norm(graph, block.name + "/conv2", y, last);
  }
  y = drop_branch(graph, block.name, y, block.place, settings);
  std::optional<ConvNormParams> projection;
  if (block.stride != 1 || graph.shape(x)[3] != wide) projection = conv(wide, 1, block.stride);
  return end_of_residual_block(graph, block.name, x, y, projection);
}

}  // namespace

Value residual_stages(Graph& graph, Value x, const ResidualStages& stages, const NetworkSettings& settings) {
  const std::array<int, 4>& counts = stages.block_counts;
  BlockPlace place{.count = std::accumulate(counts.begin(), counts.end(), 0)};
  for (int stage = 1; stage <= 4; ++stage) {
    for (int block = 1; block <= counts[static_cast<std::size_t>(stage - 1)]; ++block) {
      graph.set_block(place.index);
      x = residual_block(graph, x,
                         {.name = fmt::format("stage{}/block{}", stage, block),
                          .filters = std::int64_t{32} << stage,
                          .stride = stage > 1 && block == 1 ? 2 : 1,
                          .place = place},
                         stages, settings);
      ++place.index;
    }
  }
  graph.set_block(-1);
  return x;
}

}  // namespace carillon
