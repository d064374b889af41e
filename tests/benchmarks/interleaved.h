// Measures collective operations in turn: each round runs every operation once.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace carillon {

struct Operation {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};  ///< the times of each round; a time ends when the last rank has finished

  double fastest() const { return seconds.front(); }
  double median() const { return seconds[seconds.size() / 2]; }
};

/// Sets the times (`seconds`) of each operation, in ascending order. Before each operation, every rank runs `before`
/// and waits for the other ranks. Collective.
inline void measure_in_turn(
    std::vector<Operation>& operations, int warm_up, int rounds, const std::function<void()>& before = [] {}) {
  for (int round = -warm_up; round < rounds; ++round) {
    for (Operation& operation : operations) {
      before();
      MPI_Barrier(MPI_COMM_WORLD);
      const auto start = std::chrono::steady_clock::now();
      operation.run();
      const std::chrono::duration<double> own = std::chrono::steady_clock::now() - start;
      double slowest = own.count();
      MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (round >= 0) operation.seconds.push_back(slowest);
    }
  }
  for (Operation& operation : operations) std::ranges::sort(operation.seconds);
}

}  // namespace carillon
