#include "src/train/preflight/preflight_memory.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "src/comm/transport/shared_segment.h"
#include "src/core/text.h"

namespace carillon {

std::string try_shared_memory(std::size_t bytes, const Mpi& mpi) {
  if (bytes == 0) return {};
  const std::vector<std::string> places = mpi.all_gather(try_shared_segment(mpi, bytes)),
                                 hosts = mpi.all_gather(mpi.host());
  std::string text = fmt::format("shared memory: {} per rank, in {}", size_text(static_cast<double>(bytes)), places[0]);
  std::map<std::string, std::string> others;  // by host
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    if (places[rank] != places[0]) others[hosts[rank]] = places[rank];
  }
  for (const auto& [host, place] : others) text += fmt::format("; on {} in {}", printable(host), place);
  return text + "\n";
}

}  // namespace carillon
