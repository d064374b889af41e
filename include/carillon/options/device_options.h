// DeviceOptions: the device of each rank, its arithmetic, and how the ranks average gradients.
#pragma once

#include <cstdint>
#include <optional>

#include "carillon/comm/wire.h"
#include "carillon/device/device.h"

namespace carillon {

enum class DeviceChoice { automatic, cpu, cuda };  ///< automatic: a GPU if there is one
/// What averages the gradients of GPUs; automatic: NCCL if possible.
enum class CommunicatorChoice { automatic, nccl, mpi };

struct DeviceOptions {
  DeviceChoice device = DeviceChoice::automatic;
  std::optional<Arithmetic> precision = Arithmetic::fp32;  ///< nullopt: auto; open_own_device resolves it
  CpuSettings cpu = {};
  std::int64_t threads = 0;  ///< per rank; 0: the rank's share of the cores
  // Only for training:
  std::int64_t ranks = 0;  ///< ranks to start under mpirun; 0: those that a launcher started, or one
  CommunicatorChoice comm = CommunicatorChoice::automatic;
  bool cuda_graph = true;             ///< replay each step, and each batch of an evaluation, as one captured CUDA graph
  std::int64_t bucket_kib = 0;        ///< KiB of gradients per all-reduce; 0: by bucket_bytes_on
  Wire wire = Wire::fp32;             ///< number format of gradients between hosts and GPUs
  bool log_device_placement = false;  ///< list every op with its device and memory
  bool preflight = false;             ///< check hosts, train directory and averaging; do not train
  bool share_gpus = false;            ///< a preflight accepts several ranks per GPU
  // Not an option:
  Arithmetic arithmetic = Arithmetic::fp32;  ///< `precision` resolved, by open_own_device
};

}  // namespace carillon
