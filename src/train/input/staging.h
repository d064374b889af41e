// Staging: copies of data files on each host's own disk, so that a file system that is shared is read once.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"

namespace carillon {

struct StagingSettings {
  std::filesystem::path directory;          ///< on each host
  bool by_file = false;                     ///< a host needs its ranks' shares of the files only (file_share)
  std::function<void()> heartbeat = [] {};  ///< called now and then
  /// How long ago a half copy of another process was last touched that is taken for a killed one's.
  std::chrono::seconds age_of_remains = std::chrono::hours(1);
};

/// Numbers of the files that the ranks of `host` read, of all ranks' `hosts` (Mpi::hosts).
std::vector<std::size_t> files_needed(std::size_t file_count, bool by_file, const std::vector<int>& hosts, int host);

/// Collective. Copies the files that the ranks of this host need to <directory><their absolute path>, each rank some of
/// them, and returns their paths there; of the others, those that were given. A copy of the file's size and time of
/// change is taken as it is: a job that is started again copies nothing. Rank 0 tells what is done. Errors: no_input,
/// io (a file; no room, before anything is copied), data (a file that changes meanwhile), stopped (by a signal; what
/// has been copied stays).
std::vector<std::string> stage_files(const std::vector<std::string>& paths, const StagingSettings& settings,
                                     const Mpi& mpi);

}  // namespace carillon
