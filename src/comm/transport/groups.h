// The kinds of groups, one file each. Construction is collective.
#pragma once

#include <memory>
#include <vector>

#include "carillon/comm/wire.h"
#include "carillon/core/sum_in_order.h"
#include "src/comm/mpi/members.h"
#include "src/comm/transport/group.h"

namespace carillon {

/// A group of one rank: every sum equals the rank's own value.
std::unique_ptr<Group> make_self_group();

/// A group of any ranks. `order`: summation order. `wire`: format of the messages of reduce-scatter and all-gather.
/// Groups made by `split` inherit `order` and `wire`.
std::unique_ptr<Group> make_message_group(Members members, SumOrder order = SumOrder::sequential,
                                          Wire wire = Wire::fp32);

/// A group of ranks of one host.
std::unique_ptr<Group> make_shared_memory_group(Members members);

/// The slice of `values` that belongs to `rank` in a group of `size` ranks.
inline std::span<float> slice_of(std::span<float> values, int rank, int size) {
  const Slice part = reduction_slice(values.size(), rank, size);
  return values.subspan(part.begin, part.end - part.begin);
}

/// All members except `rank`, in cyclic order from rank + 1, so that each rank starts with a different peer.
inline std::vector<int> others_of(int rank, int size) {
  std::vector<int> others;
  for (int step = 1; step < size; ++step) others.push_back((rank + step) % size);
  return others;
}

/// An operation that has already finished.
class NothingPending final : public Group::Pending {
  void wait() override {}
};

}  // namespace carillon
