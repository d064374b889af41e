#include "src/comm/waiter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// "rank 3", "ranks 1, 2 and 3", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more".
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

}  // namespace

void Waiter::give_up(std::string_view operation, const std::vector<int>& members) const {
  if (members.empty()) return;
  std::vector<int> missing;
  for (const int member : members) missing.push_back(ranks_[member]);
  fail(ExitCode::failed, "waited {:g} s for {} in {}", limit_.seconds, rank_list(std::move(missing)), operation);
}

}  // namespace carillon
