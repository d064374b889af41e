#include "src/comm/stall/bounded_wait.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>

#include "carillon/core/error.h"

namespace carillon {

std::string rank_list(std::vector<int> ranks) {
  constexpr std::size_t max_listed = 8;
  std::sort(ranks.begin(), ranks.end());
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() > max_listed) {
    return fmt::format("ranks {} and {} more", fmt::join(std::span(ranks).first(max_listed), ", "),
                       ranks.size() - max_listed);
  }
  return fmt::format("ranks {} and {}", fmt::join(std::span(ranks).first(ranks.size() - 1), ", "), ranks.back());
}

void BoundedWait::give_up(std::string_view operation, const std::vector<int>& members) const {
  if (members.empty()) return;
  fail(ExitCode::lost_rank, "waited {:g} s for {} in {}", limit_.seconds, rank_list(ranks_of(members)), operation);
}

void BoundedWait::observe(std::string_view operation, const std::vector<int>& members, double seconds) const {
  if (!members.empty()) limit_.observer->still_waiting(operation, ranks_of(members), seconds);
}

std::vector<int> BoundedWait::ranks_of(const std::vector<int>& members) const {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(ranks_[member]);
  return ranks;
}

}  // namespace carillon
