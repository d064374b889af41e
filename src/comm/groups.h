// The groups to choose from; one file each. Collective over their members.
#pragma once

#include <memory>

#include "carillon/comm/group.h"
#include "src/comm/members.h"

namespace carillon {

/// One rank: every sum is the value itself.
std::unique_ptr<Group> make_self_group();

/// Any ranks.
std::unique_ptr<Group> make_message_group(Members members);

/// Ranks of one host.
std::unique_ptr<Group> make_shared_memory_group(Members members);

/// What is over when it returns.
class NothingPending final : public Group::Pending {
  void wait() override {}
};

}  // namespace carillon
