// Members: a set of ranks with an MPI communicator, and the way to wait for them. Every group is made from one.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "carillon/core/handle.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/bounded_wait.h"

namespace carillon {

/// Throws Error(failed) with MPI's error text unless `status` is MPI_SUCCESS.
void check_mpi(int status, std::string_view call);

class Members {
 public:
  /// The ranks of `comm`, in a duplicated communicator. Error messages number them 0, 1, ... Collective.
  Members(MPI_Comm comm, WaitLimit limit);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(bounded_wait_.ranks().size()); }
  MPI_Comm comm() const { return comm_.get(); }
  const BoundedWait& bounded_wait() const { return bounded_wait_; }
  BoundedWait& bounded_wait() { return bounded_wait_; }

  /// The members with the same `color`, ordered by key, then rank. Error messages keep their numbers. Collective.
  Members split(int color, int key) const;

 private:
  Members(MPI_Comm own, BoundedWait bounded_wait);
  static void free(MPI_Comm comm);

  Handle<MPI_Comm, &Members::free> comm_;
  int rank_ = 0;
  BoundedWait bounded_wait_;
};

/// All ranks of the run, and the ranks of this host.
struct Mpi::Ranks {
  Members all, local;
};

}  // namespace carillon
