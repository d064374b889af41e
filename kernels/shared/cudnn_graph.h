// Functions for graphs of cuDNN's frontend. The functions request deterministic kernels. CUDA builds only.
#pragma once

#include <cudnn_frontend.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/device/cuda_device.h"

namespace carillon {

inline GpuModel model_of(const CudnnTarget& target) {
  if (!target.handle) {
    const auto properties = nlohmann::json::parse(target.device_json);
    return {properties.at("deviceVer").get<int>() / 10, properties.at("multiProcessorCount").get<int>()};
  }
  int ordinal = 0;
  cudaDeviceProp properties{};
  check_cuda(cudaGetDevice(&ordinal));
  check_cuda(cudaGetDeviceProperties(&properties, ordinal));
  return {properties.major * 10 + properties.minor, properties.multiProcessorCount};
}

/// Returns attributes of an operation. If the operation offers a choice, the attributes request a deterministic
/// algorithm. It is not enough to deselect plans by cuDNN's notes: the default backward pass of attention is not
/// deterministic, but its plans have no note about this.
template <typename Attributes>
Attributes deterministic() {
  Attributes attributes;
  if constexpr (requires { attributes.set_deterministic_algorithm(true); }) {
    attributes.set_deterministic_algorithm(true);
  }
  if constexpr (requires { attributes.set_is_deterministic(true); }) attributes.set_is_deterministic(true);
  return attributes;
}

/// Builds the operation graph of a validated graph for the target.
inline cudnn_frontend::error_t build_operation_graph(cudnn_frontend::graph::Graph& graph, const CudnnTarget& target) {
  if (target.handle) return graph.build_operation_graph(target.handle);
  const auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  const cudnn_frontend::error_t status =
      properties->deserialize({target.device_json.begin(), target.device_json.end()});
  if (status.is_bad()) return status;
  graph.set_device_properties(properties);
  return graph.build_operation_graph();
}

/// Requests the plans of cuDNN's heuristics for the graph. Deselects plans that are not deterministic, have an
/// `unwanted` note, or need more than `workspace_bytes`.
inline cudnn_frontend::error_t propose_plans(cudnn_frontend::graph::Graph& graph, const CudnnTarget& target,
                                             std::vector<cudnn_frontend::NumericalNote_t> unwanted,
                                             std::size_t workspace_bytes) {
  using cudnn_frontend::HeurMode_t;
  cudnn_frontend::error_t status = graph.validate();
  if (status.is_good()) status = build_operation_graph(graph, target);
  if (status.is_good()) status = graph.create_execution_plans({HeurMode_t::A, HeurMode_t::FALLBACK});
  if (status.is_bad()) return status;
  unwanted.push_back(cudnn_frontend::NumericalNote_t::NONDETERMINISTIC);
  graph.deselect_numeric_notes(unwanted);
  graph.deselect_workspace_greater_than(static_cast<std::int64_t>(workspace_bytes));
  return status;
}

/// Shortens the library's messages, because they have one line per kernel.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace carillon
