#include "carillon/run/agreement.h"

#include <nlohmann/json.hpp>

#include "carillon/run/run_description.h"

namespace carillon {

void agree(const Mpi& mpi, const std::vector<Field>& fields) {
  const std::vector<std::string> all = mpi.all_gather(json_text(fields));
  for (int rank = 1; rank < mpi.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const nlohmann::json first = nlohmann::json::parse(all[0]), other = nlohmann::json::parse(all[rank]);
    for (const auto& [name, value] : first.items()) {
      if (other.contains(name) && other[name] == value) continue;
      fail_on_all(mpi, ExitCode::usage,
                  fmt::format("ranks disagree on {}: {} on rank 0, {} on rank {}", shown_name(name), value.dump(),
                              other.contains(name) ? other[name].dump() : "nothing", rank));
    }
    fail_on_all(mpi, ExitCode::usage, fmt::format("ranks 0 and {} run different programs", rank));
  }
}

void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message) {
  if (mpi.rank() == 0) throw SharedError(code, message);
  throw PeerFailed(code);
}

}  // namespace carillon
