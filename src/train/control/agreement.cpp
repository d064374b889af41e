#include "src/train/control/agreement.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "src/cli/options/run_description.h"

namespace carillon {
namespace {

/// Returns "rank 3" or, if there are several hosts, "rank 3 on node2".
std::string place_of(int rank, const std::vector<std::string>& hosts) {
  const bool one_host = std::ranges::all_of(hosts, [&](const std::string& host) { return host == hosts[0]; });
  return one_host ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, hosts[rank]);
}

}  // namespace

void require_equal_on_all_ranks(const Mpi& mpi, const std::vector<Field>& fields) {
  const std::vector<std::string> all = mpi.all_gather(json_text(fields));
  for (int rank = 1; rank < mpi.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const std::vector<std::string> hosts = mpi.all_gather(mpi.host());
    const nlohmann::json first = nlohmann::json::parse(all[0]), other = nlohmann::json::parse(all[rank]);
    for (const auto& [name, value] : first.items()) {
      if (other.contains(name) && other[name] == value) continue;
      fail_on_all(
          mpi, ExitCode::usage,
          fmt::format("ranks disagree on {}: {} on {}, {} on {}", shown_name(name), value.dump(), place_of(0, hosts),
                      other.contains(name) ? other[name].dump() : "nothing", place_of(rank, hosts)));
    }
    fail_on_all(mpi, ExitCode::usage, fmt::format("ranks 0 and {} run different programs", rank));
  }
}

void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message) {
  if (mpi.rank() == 0) throw SharedError(code, message);
  throw PeerFailed(code);
}

ControlFlags requested_by_any(const Mpi& mpi, const ControlFlags& own) {
  std::array<std::int64_t, 3> counts{own.save, own.stop, own.give_up};
  mpi.sum(counts);
  return {.save = counts[0] > 0, .stop = counts[1] > 0, .give_up = counts[2] > 0};
}

}  // namespace carillon
