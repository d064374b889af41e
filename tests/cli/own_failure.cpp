// An MPI program with ranks that fail in one of three ways: own_failure alone|together|each.
// alone: only the last rank fails, and the other ranks wait for it.
// together: the last rank fails, and all ranks know it.
// each: every rank fails, and no rank knows that other ranks fail.
#include <string_view>

#include "src/cli/launch/mpi_main.h"

int main(int argc, char** argv) {
  using namespace carillon;
  const std::string_view how = argv[1];
  return mpi_main("own_failure", argc, argv, [&](const Mpi& mpi) {
    return abort_on_own_error(mpi, "own_failure", [&] {
      const bool fails = how == "each" || mpi.rank() == mpi.size() - 1;
      const auto part = [&] {
        if (fails) fail(ExitCode::data, "a record is damaged");
      };
      if (how == "together") mpi.run_on_all(part);
      part();
      mpi.barrier();
      return ExitCode::done;
    });
  });
}
