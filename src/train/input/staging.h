// Staging: copies data files to the local disk of each host, so that each host reads the shared file system once.
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
  bool by_file = false;                     ///< a host needs only its ranks' shares of the files (file_share)
  std::function<void()> heartbeat = [] {};  ///< called regularly
  /// If the last change of another process's incomplete copy is older than this, that process counts as killed.
  std::chrono::seconds age_of_remains = std::chrono::hours(1);
};

/// Numbers of the files that the ranks of `host` read. `hosts`: by rank (Mpi::hosts).
std::vector<std::size_t> files_needed(std::size_t file_count, bool by_file, const std::vector<int>& hosts, int host);

/// Copies the files that the ranks of this host need to <directory><absolute path of the file>; each rank copies some
/// of them. Returns the path of the copy for each copied file, and the given path for every other file. A copy with the
/// size and modification time of the file is reused, so a restarted job copies nothing; if the file's directory has an
/// index file, the copy must also have the records of the index. All directories must be this user's, without links and
/// without write permission for others. Rank 0 prints the progress. Collective. Errors: no_input, io (a file; no space,
/// before anything is copied), usage (a directory of another user), data (a file changes during the copy), stopped (by
/// a signal; finished copies remain).
std::vector<std::string> stage_files(const std::vector<std::string>& paths, const StagingSettings& settings,
                                     const Mpi& mpi);

}  // namespace carillon
