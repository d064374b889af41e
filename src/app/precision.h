// How the programs choose a number format, and what they require of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "carillon/options/device_options.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// The highest instruction set of each rank's processor that --isa permits. Collective.
std::vector<Isa> possible_isas(const DeviceOptions& options, const Mpi& mpi);

/// Whether CPUs with AVX512-BF16 and without AMX train this network faster in bf16 than in float32. The conditions: in
/// float32, Winograd's method would do at most 60 % of its multiply-adds; `samples`, which a rank processes at once,
/// fill the rows of a tile. Measured: docs/lab-notes/2026-11-26-automatic-bf16.md.
bool suits_avx512_bf16(const Network& network, std::int64_t samples);

/// Of --precision auto in a training: tf32 on GPUs, as in other frameworks' convolutions. On CPUs bf16 if all ranks
/// have Isa::amx, or if all have Isa::avx512_bf16 or Isa::amx and the network suits it; else fp32. `isas`: the result
/// of possible_isas.
Arithmetic automatic_precision(DeviceKind device, const std::vector<Isa>& isas, const Network& network,
                               std::int64_t samples);
/// Of --precision auto in an evaluation: tf32 on GPUs. On CPUs bf16 if all ranks have Isa::amx, or if the training used
/// bf16 and all have Isa::avx512_bf16; else fp32. `trained_in_bf16`: as the checkpoint says.
Arithmetic automatic_evaluation_precision(DeviceKind device, const std::vector<Isa>& isas, bool trained_in_bf16);

/// Sets --precision. Warns on rank 0 if CPUs emulate it. Errors: no_device (tf32 on a CPU).
void set_precision(DeviceOptions& options, Arithmetic precision, const Device& device, const std::vector<Isa>& isas,
                   const Mpi& mpi);

}  // namespace carillon
