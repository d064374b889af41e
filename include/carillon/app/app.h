// The frame of every MPI program: starts MPI, runs the body, and turns the first error into one line and an exit code.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/app/option_set.h"
#include "carillon/comm/mpi.h"

namespace carillon {

/// Runs `body(mpi)` between MPI_Init and MPI_Finalize and returns its exit code. An error prints
/// "<program>: rank R on HOST: <message>". One that all ranks know of (SharedError, PeerFailed) lets every rank
/// finalize and leave with its code; any other ends all ranks with MPI_Abort(code), since the others may be waiting for
/// this one and a single rank's plain exit code gets lost under srun.
int run_app(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body);

/// Runs `body`, in which ranks depend on each other, where its objects are still alive: an error that this rank meets
/// alone is printed and ends all ranks at once, before any destructor waits for a peer. What all ranks know of passes
/// through.
ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, const std::function<ExitCode()>& body);

/// Parses the options and compares them over the ranks, but for the `own` keys; false after --help, which rank 0
/// prints. Errors: those of OptionSet::parse; usage (ranks that disagree).
bool parse_options(OptionSet& set, int argc, char** argv, const Mpi& mpi, const std::vector<std::string>& own);

/// Throws SharedError on rank 0 and PeerFailed elsewhere: for what every rank has found out alike.
[[noreturn]] void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message);

/// A key of OptionSet::values as a user knows it: "learning_rate" as "--learning-rate"; what has a space is no option.
std::string shown_key(std::string key);

/// Throws usage on all ranks unless `values` is equal on all of them; names the key and the ranks that differ.
void agree(const Mpi& mpi, const nlohmann::json& values);

}  // namespace carillon
