#include "src/comm/transport/shared_arrays.h"

#include <cstring>
#include <new>

namespace carillon {
namespace {

using Progress = SharedArrays::Progress;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the counters are shared between processes");

}  // namespace

SharedArrays::SharedArrays(const Members& members, std::size_t bytes)
    : members_(members), segment_(members, sizeof(Progress) + bytes) {  // Progress first, then the array
  std::byte* const own_part = segment_.part(members.rank());
  std::memset(own_part, 0, sizeof(Progress) + bytes);  // its pages are placed near this member's cores
  new (own_part) Progress;
  for (int rank = 0; rank < members.size(); ++rank) {
    progress_.push_back(reinterpret_cast<Progress*>(segment_.part(rank)));
    arrays_.push_back(reinterpret_cast<float*>(progress_.back() + 1));
  }
  meet(members, "setting up shared memory");
}

bool SharedArrays::have_all_reached(Counter counter, std::uint64_t goal) const {
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (!has_reached(counter, rank, goal)) return false;
  }
  return true;
}

std::vector<int> SharedArrays::missing(Counter counter, std::uint64_t goal) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (!has_reached(counter, rank, goal)) ranks.push_back(rank);
  }
  return ranks;
}

void SharedArrays::wait_for(int first, int last, Counter counter, std::uint64_t goal,
                            std::string_view operation) const {
  const auto missing_ones = [&] {
    std::vector<int> ranks = missing(counter, goal);
    std::erase_if(ranks, [&](int rank) { return rank < first || rank >= last; });
    return ranks;
  };
  for (int rank = first; rank < last; ++rank) {
    members_.bounded_wait().wait(
        operation, wait_spins, [&] { return has_reached(counter, rank, goal); }, missing_ones);
  }
}

}  // namespace carillon
