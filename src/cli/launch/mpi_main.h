// mpi_main: runs the body of an MPI program and turns the first error into one line and an exit code.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"

namespace carillon {

/// Prints "<program>: rank R on HOST: <message>" to stderr, without rank and host if `mpi` is null. Reports the line
/// and the exit code `code` of this rank to the launcher (ranks.h).
void print_error(std::string_view program, const Mpi* mpi, std::string_view message, ExitCode code);

/// Runs `body(mpi)` between MPI_Init and MPI_Finalize and returns its exit code. An error prints
/// "<program>: rank R on HOST: <message>". If all ranks know the error (SharedError, PeerFailed), every rank finalizes
/// MPI and returns the exit code of the error. Any other error ends all ranks with MPI_Abort(code): the other ranks may
/// be waiting for this one, and srun loses the exit code of a single rank.
int mpi_main(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body);

/// Runs a `body` in which the ranks depend on each other. If an error occurs on this rank only, the rank prints the
/// error and ends all ranks at once, before a destructor outside `body` can wait for a peer. Errors that all ranks know
/// are rethrown.
ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, const std::function<ExitCode()>& body);
/// As above, and marks the failure in the stall detector, so that other ranks do not report the end of this one.
ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, StallDetector& stall_detector,
                            const std::function<ExitCode()>& body);

}  // namespace carillon
