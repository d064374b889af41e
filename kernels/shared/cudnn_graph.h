// Functions for graphs of cuDNN's frontend. CUDA builds only.
#pragma once

#include <cudnn_frontend.h>

#include <memory>
#include <string>

#include "kernels/shared/cudnn_target.h"
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

/// Shortens the library's messages, which have one line per kernel and fill pages.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace carillon
