// The groups to choose from; one file each. Collective over their members.
#pragma once

#include <memory>
#include <vector>

#include "carillon/core/sum_in_order.h"
#include "src/comm/mpi/members.h"
#include "src/comm/transport/group.h"

namespace carillon {

/// One rank: every sum is the value itself.
std::unique_ptr<Group> make_self_group();

/// Any ranks. `order`: of the sums, and of those of groups that are split off.
std::unique_ptr<Group> make_message_group(Members members, SumOrder order = SumOrder::sequential);

/// The same, but what is sent is rounded to bfloat16; broadcasts are not.
std::unique_ptr<Group> make_bf16_message_group(Members members, SumOrder order = SumOrder::sequential);

/// Ranks of one host.
std::unique_ptr<Group> make_shared_memory_group(Members members);

/// `rank`'s slice of `values`, of a group of `size`.
inline std::span<float> slice_of(std::span<float> values, int rank, int size) {
  const Slice part = reduction_slice(values.size(), rank, size);
  return values.subspan(part.begin, part.end - part.begin);
}

/// The members but `rank`, from the next one on: each begins with another.
inline std::vector<int> others_of(int rank, int size) {
  std::vector<int> others;
  for (int step = 1; step < size; ++step) others.push_back((rank + step) % size);
  return others;
}

/// What is over when it returns.
class NothingPending final : public Group::Pending {
  void wait() override {}
};

}  // namespace carillon
