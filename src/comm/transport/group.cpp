#include "src/comm/transport/group.h"

#include <algorithm>

#include "src/comm/transport/groups.h"

namespace carillon {

Slice reduction_slice(std::size_t count, int rank, int size) {
  constexpr std::size_t unit = 16;
  const std::size_t units = (count + unit - 1) / unit;
  const auto edge = [&](int part) { return std::min(units * part / size * unit, count); };
  return {edge(rank), edge(rank + 1)};
}

std::unique_ptr<Group> make_group(const Mpi& mpi, WaitLimit limit) {
  if (mpi.size() == 1) return make_self_group();
  Members members(mpi.ranks().all.comm(), limit);
  if (mpi.local_size() == mpi.size()) return make_shared_memory_group(std::move(members));
  return make_message_group(std::move(members));
}

}  // namespace carillon
