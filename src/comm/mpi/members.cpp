#include "src/comm/mpi/members.h"

#include <array>
#include <numeric>
#include <vector>

#include "src/comm/transport/point_to_point.h"

namespace carillon {
namespace {

MPI_Comm copy_of(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return copy;
}

std::vector<int> own_ranks(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

void check_mpi(int status, std::string_view call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  fail(ExitCode::failed, "{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

void progress_mpi() {
  int there = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

Members::Members(MPI_Comm comm, WaitLimit limit) : Members(copy_of(comm), BoundedWait(limit, own_ranks(comm))) {}

Members::Members(MPI_Comm own, BoundedWait bounded_wait) : comm_(own), bounded_wait_(std::move(bounded_wait)) {
  check_mpi(MPI_Comm_rank(own, &rank_), "MPI_Comm_rank");
}

void Members::free(MPI_Comm comm) { MPI_Comm_free(&comm); }

Members Members::split(int color, int key) const {
  meet(*this, "a split");  // so that all ranks reach the next calls, which have no limit
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm(), color, key, &part), "MPI_Comm_split");
  std::vector<int> ranks = own_ranks(part);
  const int name = bounded_wait_.ranks()[rank_];
  check_mpi(MPI_Allgather(&name, 1, MPI_INT, ranks.data(), 1, MPI_INT, part), "MPI_Allgather");
  return {part, BoundedWait(bounded_wait_.limit(), std::move(ranks))};
}

}  // namespace carillon
