// Startup: what training and evaluation programs do first: options, cores, device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "carillon/train/train_options.h"
#include "src/app/option_set.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"

namespace carillon {

/// What `program` answers to --version, and to flags of the TensorFlow programs and others that are not options here.
void introduce(OptionSet& set, const std::string& program);

/// Parses the options and compares them over the ranks, but for those of one rank; false after --help or
/// --version, which rank 0 answers. Collective. Errors: those of OptionSet::parse; usage (ranks that disagree).
bool parse_on_all_ranks(OptionSet& set, int argc, char** argv, const Mpi& mpi);

/// Tells someone without data, who gave no --data either, how to make them. Errors: no_input (none match `patterns`,
/// the defaults: "data/mnist/train-*").
void check_default_data(const OptionSet& set, const std::vector<std::string>& patterns);

/// Errors: usage (an instruction set asked for that is not among `available`, a processor's, lowest first).
void check_isa(std::optional<Isa> asked, const std::vector<Isa>& available);

/// This rank's device, which can compute in `arithmetic`. Errors: those of open_device; no_device where it cannot;
/// usage (an instruction set that this processor does not have; one, or Winograd's method, on a GPU).
std::unique_ptr<Device> open_own_device(DeviceChoice choice, Arithmetic arithmetic, const CpuSettings& settings,
                                        const Mpi& mpi, const CpuShare& share);

/// `stall_timeout`: seconds, 0 for ever. The line that ends the run is printed as `program`'s. `mpi` outlives them.
StallDetectorSettings stall_detector_settings(double stall_timeout, const Device& device, const Mpi& mpi,
                                              const std::string& program);

/// The instruction set that this rank's CPU kernels run with: "avx512"; empty on a GPU.
std::string isa_text(Device& device);
/// The instruction sets that the CPU kernels of all ranks run with, each once, in the ranks' order: "avx512"; empty on
/// GPUs. Collective.
std::string isas_of_all(Device& device, const Mpi& mpi);

}  // namespace carillon
