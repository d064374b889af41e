// Chooses the device of each rank, and the number format and the instruction set of the rank's computations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// Checks that the processor has the requested instruction set. `available`: the processor's instruction sets; the
/// lowest is the first. Errors: usage (`available` does not contain the requested instruction set).
void check_isa(std::optional<Isa> requested, const std::vector<Isa>& available);

/// Opens this rank's device. Errors: see open_device; usage (this processor does not have the instruction set of --isa;
/// --isa, --convolution winograd or --wire bf16 is set for a GPU).
std::unique_ptr<Device> open_own_device(const DeviceOptions& options, const Mpi& mpi, const CpuShare& share);

/// Returns the name of the instruction set that determines how this rank's CPU rounds (rounding_isa). The text is
/// "avx512" also on CPUs with AMX, because both compute equal bits. The text is empty on a GPU.
std::string isa_text(Device& device, Arithmetic arithmetic);
/// Returns the instruction sets of the CPU kernels of all ranks, for example "avx512, avx2". Each instruction set is
/// listed once, in the order of the ranks. The text is empty on GPUs. Collective.
std::string isas_of_all(Device& device, Arithmetic arithmetic, const Mpi& mpi);

/// Returns, for each rank, the highest instruction set that its processor has and --isa permits. Collective.
std::vector<Isa> possible_isas(const DeviceOptions& options, const Mpi& mpi);

/// True if CPUs with AVX512-BF16 and without AMX train this network faster in bf16 than in float32. This requires two
/// conditions. In float32, Winograd's method would compute at most 60 % of the multiply-adds. The samples that a rank
/// processes together (`samples`) fill the rows of a matrix tile. Measured:
/// docs/lab-notes/2026-11-26-automatic-bf16.md.
bool suits_avx512_bf16(const Network& network, std::int64_t samples);

/// Returns the number format that --precision auto chooses for a training. On GPUs, the format is tf32, as in other
/// frameworks' convolutions. On CPUs, the format is bf16 if all ranks have Isa::amx. The format is also bf16 if all
/// ranks have Isa::avx512_bf16 or Isa::amx and the network is faster in bf16 with AVX512-BF16. Otherwise it is fp32.
/// `isas`: the result of possible_isas.
Arithmetic automatic_precision(DeviceKind device, const std::vector<Isa>& isas, const Network& network,
                               std::int64_t samples);
/// Returns the number format that --precision auto chooses for an evaluation. On GPUs, the format is tf32. On CPUs, the
/// format is bf16 if all ranks have Isa::amx, or if the training used bf16 and all ranks have Isa::avx512_bf16.
/// Otherwise it is fp32. `trained_in_bf16`: true if the training used bf16, which the checkpoint states.
Arithmetic automatic_evaluation_precision(DeviceKind device, const std::vector<Isa>& isas, bool trained_in_bf16);

/// Sets the precision and the arithmetic of `options` to `precision`. Rank 0 warns if CPUs emulate bf16. Errors:
/// no_device (the precision is tf32 and the device is a CPU).
void set_precision(DeviceOptions& options, Arithmetic precision, const Device& device, const std::vector<Isa>& isas,
                   const Mpi& mpi);

}  // namespace carillon
