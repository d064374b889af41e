// Checks the train directory for preflight.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/checkpoint/directory_lock.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// Describes whether a lock of the first rank works. `seen`: the state that the first rank and one rank of each other
/// host see; `hosts`: the names of their hosts.
std::string lock_text(const std::vector<LockState>& seen, const std::vector<std::string>& hosts);

/// One line on rank 0: the free space of the directory, and whether its locks work on this host and across hosts.
/// Removes everything that it writes. Collective. Errors: usage (the directory is in use), io (it cannot be written).
std::string check_train_directory(const std::filesystem::path& directory, const Mpi& mpi);

}  // namespace carillon
