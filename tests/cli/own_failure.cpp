// An MPI program in which only the last rank fails while the others wait for it (alone), all ranks know that the last
// rank fails (together), or every rank fails and knows no other (each): own_failure alone|together|each.
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
