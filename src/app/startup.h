// Startup: the first steps of training and evaluation programs: options, cores, device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "carillon/options/device_options.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"
#include "src/options/option_set.h"

namespace carillon {

/// Sets the answers of `program` to --version, and to flags of the TensorFlow programs that are not options here.
void introduce(OptionSet& set, const std::string& program);

/// Parses the options and requires them to be equal on all ranks, except those of one rank. Returns false after --help
/// or --version, which rank 0 answers. Collective. Errors: those of OptionSet::parse; usage (ranks that disagree).
bool parse_on_all_ranks(OptionSet& set, int argc, char** argv, const Mpi& mpi);

/// If --data was not given, checks that its default `patterns` match files. Errors: no_input, with the command that
/// makes the files.
void check_default_data(const OptionSet& set, const std::vector<std::string>& patterns);

/// Checks that the files of `patterns` exist, and opens none. Accepts "synthetic". Errors: no_input.
void check_files_exist(const std::vector<std::string>& patterns);

/// `available`: the processor's instruction sets, lowest first. Errors: usage (the requested one is not among them).
void check_isa(std::optional<Isa> requested, const std::vector<Isa>& available);

/// This rank's device. Errors: those of open_device; usage (this processor lacks the instruction set of --isa; --isa or
/// --convolution winograd on a GPU).
std::unique_ptr<Device> open_own_device(const DeviceOptions& options, const Mpi& mpi, const CpuShare& share);

/// `stall_timeout`: seconds; 0: unlimited. `program`: in the message that ends the run. `mpi` must outlive the
/// detector.
StallDetectorSettings stall_detector_settings(double stall_timeout, const Device& device, const Mpi& mpi,
                                              const std::string& program);

/// The instruction set that decides how this rank's CPU rounds (rounding_isa): "avx512", also with AMX, because both
/// give equal bits. Empty on a GPU.
std::string isa_text(Device& device, Arithmetic arithmetic);
/// The instruction sets of all ranks' CPU kernels, each once, in the order of the ranks: "avx512, avx2"; empty on GPUs.
/// Collective.
std::string isas_of_all(Device& device, Arithmetic arithmetic, const Mpi& mpi);

}  // namespace carillon
