// The groups to choose from; one file each. Collective over their members.
#pragma once

#include <memory>

#include "carillon/comm/group.h"
#include "carillon/core/sum_in_order.h"
#include "src/comm/members.h"

namespace carillon {

/// One rank: every sum is the value itself.
std::unique_ptr<Group> make_self_group();

/// Any ranks. `order`: of the sums, and of those of groups that are split off.
std::unique_ptr<Group> make_message_group(Members members, SumOrder order = SumOrder::sequential);

/// The same, but what is sent is rounded to bfloat16; broadcasts are not.
std::unique_ptr<Group> make_bf16_message_group(Members members, SumOrder order = SumOrder::sequential);

/// Ranks of one host.
std::unique_ptr<Group> make_shared_memory_group(Members members);

/// What is over when it returns.
class NothingPending final : public Group::Pending {
  void wait() override {}
};

}  // namespace carillon
