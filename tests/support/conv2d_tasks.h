// Lists the convolutions that a GPU computes when it trains a network. Each is a Conv2dTask for cuDNN.
#pragma once

#include <string>
#include <vector>

#include "carillon/models/network.h"
#include "kernels/conv2d/conv2d_plan_cuda.h"

namespace carillon::testing {

struct NamedConv2dTask {
  std::string op;
  Conv2dTask task;
  /// cuBLASLt computes the convolution as a matrix product, because its windows tile the input.
  bool is_product = false;
};

/// Returns the tasks of all passes of all convolutions, in forward order. A convolution has a data_gradient only if its
/// input needs a gradient. It has a forward_bias only if it has biases and no fused ReLU. A plan may use at most
/// `workspace_bytes` of workspace.
inline std::vector<NamedConv2dTask> conv2d_tasks(const Network& network, std::int64_t batch, Arithmetic arithmetic,
                                                 std::size_t workspace_bytes) {
  const BuiltNetwork built =
      build_network(network, {.batch_size = batch, .arithmetic = arithmetic, .device = DeviceKind::cuda});
  std::vector<NamedConv2dTask> tasks;
  for (const Graph::Node& node : built.graph.nodes()) {
    const Conv2dGeometry* geometry = conv2d_geometry(*node.definition);
    if (geometry == nullptr) continue;
    const Graph::ValueInfo& x = built.graph.values()[node.inputs.at(0)];
    const Graph::ValueInfo& y = built.graph.values()[node.outputs.at(0)];
    Conv2dTask task{
        .layout = conv2d_layout(*geometry, x.shape, built.graph.parameters()[node.parameters.at(0)].shape, y.shape),
        .type = x.type,
        .arithmetic = arithmetic,
        .workspace_bytes = workspace_bytes};
    std::vector<Conv2dPass> passes{Conv2dPass::forward, Conv2dPass::weights_gradient};
    if (node.parameters.size() > 1 && !geometry->relu) passes.push_back(Conv2dPass::forward_bias);
    if (x.wants_gradient) passes.push_back(Conv2dPass::data_gradient);
    for (const Conv2dPass pass : passes) {
      task.pass = pass;
      tasks.push_back({node.name, task, windows_tile_input(*geometry)});
    }
  }
  return tasks;
}

}  // namespace carillon::testing
