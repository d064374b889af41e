// mpi_main: the main function of programs with ranks. mpi_main.cpp also parses their options, configures the stall
// detector, and turns errors into exit codes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/device/device.h"
#include "src/cli/options/option_set.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"

namespace carillon {

/// Sets the answer to --version. Also sets the error texts for flags that the TensorFlow programs have and Carillon
/// does not have.
void introduce(OptionSet& set, const std::string& program);

/// Parses the options. Requires equal options on all ranks, except options with Scope::rank. If --help or --version is
/// given, rank 0 prints the answer, and the function returns false. Collective. Errors: see OptionSet::parse; usage
/// (the ranks disagree).
bool parse_on_all_ranks(OptionSet& set, int argc, char** argv, const Mpi& mpi);

/// If --data was not given, checks that `patterns`, the default of --data, match files. Errors: no_input (a file is
/// missing; the message contains the command that makes the files).
void check_default_data(const OptionSet& set, const std::vector<std::string>& patterns);

/// Returns the settings of the stall detector of a program. `stall_timeout`: seconds; 0: unlimited. `program`: name for
/// the message that ends the run. `mpi` must outlive the detector.
StallDetectorSettings stall_detector_settings(double stall_timeout, const Device& device, const Mpi& mpi,
                                              const std::string& program);

// The end of a program: prints one line for the first error, and returns its exit code.

/// Prints "<program>: rank R on HOST: <message>" to stderr, without rank and host if `mpi` is null. Reports the line
/// and the exit code `code` of this rank to the launcher (ranks.h).
void print_error(std::string_view program, const Mpi* mpi, std::string_view message, ExitCode code);

/// Runs `body(mpi)` between MPI_Init and MPI_Finalize and returns its exit code. An error prints "<program>: rank R on
/// HOST: <message>". If all ranks know the error (SharedError, PeerFailed), every rank finalizes MPI and returns the
/// exit code of the error. Any other error ends all ranks with MPI_Abort(code), because the other ranks may be waiting
/// for this rank, and because srun loses the exit code of a single rank.
int mpi_main(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body);

/// Runs a `body` in which the ranks depend on each other. If an error occurs on this rank only, the rank prints the
/// error and ends all ranks at once. Otherwise a destructor outside `body` could wait for a peer. Errors that all ranks
/// know are rethrown.
ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, const std::function<ExitCode()>& body);
/// Does the same as the overload above. In addition, marks the failure in the stall detector, so that other ranks do
/// not report the end of this rank.
ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, StallDetector& stall_detector,
                            const std::function<ExitCode()>& body);

/// Returns the output of --version: a line with the version of the program, and a line with the versions of its
/// libraries.
std::string version_text(const std::string& program);

}  // namespace carillon
