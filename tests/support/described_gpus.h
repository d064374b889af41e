// Descriptions of GPUs. With such a description, cuDNN makes plans without a device.
#pragma once

#include <cstddef>
#include <string_view>

namespace carillon::testing {

/// The properties of an H200 in the JSON format of cuDNN's device property descriptor. The values are those that
/// cudaGetDeviceProperties returns.
inline constexpr std::string_view h200 = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560,
  "totalGlobalMem": 150754820096, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "isTccDriver": 0,
  "supportCoopLaunch": 1})";
inline constexpr std::string_view a100 = R"({
  "deviceName": "NVIDIA A100-SXM4-80GB", "deviceVer": 800, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "multiProcessorCount": 108, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 166912, "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 41943040,
  "totalGlobalMem": 85094301696, "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "isTccDriver": 0,
  "supportCoopLaunch": 1})";

inline constexpr std::size_t h200_workspace_bytes = std::size_t{2} << 30;  ///< of CudaDevice, on an H200

}  // namespace carillon::testing
