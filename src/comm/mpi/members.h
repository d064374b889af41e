// Members: ranks that can send each other messages and wait for each other; what every group is made from.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "carillon/core/handle.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/bounded_wait.h"

namespace carillon {

/// Throws Error(failed) with MPI's text unless `status` is MPI_SUCCESS.
void check_mpi(int status, std::string_view call);

class Members {
 public:
  /// The ranks of `comm`, under a context of their own; errors call them 0, 1, ... Collective.
  Members(MPI_Comm comm, WaitLimit limit);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(bounded_wait_.ranks().size()); }
  MPI_Comm comm() const { return comm_.get(); }
  const BoundedWait& bounded_wait() const { return bounded_wait_; }
  BoundedWait& bounded_wait() { return bounded_wait_; }

  /// The members of equal `color`, by key, then rank; errors call them what they were called here. Collective.
  Members split(int color, int key) const;

 private:
  Members(MPI_Comm own, BoundedWait bounded_wait);
  static void free(MPI_Comm comm);

  Handle<MPI_Comm, &Members::free> comm_;
  int rank_ = 0;
  BoundedWait bounded_wait_;
};

/// Every rank of the run, and those of this host.
struct Mpi::Ranks {
  Members all, local;
};

}  // namespace carillon
