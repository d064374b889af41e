// The frame of every MPI program: starts MPI, runs the body, and turns the first error into one line and an exit code.
#pragma once

#include <functional>
#include <string>

#include "carillon/comm/mpi.h"
#include "carillon/train/option_set.h"

namespace carillon {

/// Runs `body(mpi)` between MPI_Init and MPI_Finalize and returns its exit code. An error prints
/// "<program>: rank R on HOST: <message>". One that all ranks know of (SharedError, PeerFailed) lets every rank
/// finalize and leave with its code; any other ends all ranks with MPI_Abort(code), since the others may be waiting for
/// this one and a single rank's plain exit code gets lost under srun.
int run_app(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body);

/// Parses the options alike on all ranks; false after --help, which rank 0 prints. Errors: those of OptionSet::parse.
bool parse_options(OptionSet& set, int argc, char** argv, const Mpi& mpi);

/// Throws SharedError on rank 0 and PeerFailed elsewhere: for what every rank has found out alike.
[[noreturn]] void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message);

/// Throws usage on all ranks unless `values` is equal on all but for the `own` keys; names the keys and ranks that
/// differ.
void agree(const Mpi& mpi, const nlohmann::json& values, const std::vector<std::string>& own);

}  // namespace carillon
