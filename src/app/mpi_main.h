// mpi_main: what surrounds the body of every MPI program: starts MPI, and turns the first error into one line and an
// exit code.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/comm/mpi/mpi.h"

namespace carillon {

/// Runs `body(mpi)` between MPI_Init and MPI_Finalize and returns its exit code. An error prints
/// "<program>: rank R on HOST: <message>". One that all ranks know of (SharedError, PeerFailed) lets every rank
/// finalize and leave with its code; any other ends all ranks with MPI_Abort(code), since the others may be waiting for
/// this one and a single rank's plain exit code gets lost under srun.
int mpi_main(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body);

/// Runs `body`, in which ranks depend on each other, where its objects are still alive: an error that this rank meets
/// alone is printed and ends all ranks at once, before any destructor waits for a peer. What all ranks know of passes
/// through.
ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, const std::function<ExitCode()>& body);

}  // namespace carillon
