// What preflight tells of a train directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/checkpoint/directory_lock.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// How a lock works that the first rank holds. `seen`: what it and a rank of each other host found; `hosts`: their
/// names, alike in order.
std::string lock_text(const std::vector<LockState>& seen, const std::vector<std::string>& hosts);

/// The directory's free space, and whether its locks hold, on this host and seen from others: a line, on rank 0.
/// Leaves nothing there. Collective. Errors: usage (it is in use), io (it cannot be written).
std::string look_at_train_directory(const std::filesystem::path& directory, const Mpi& mpi);

}  // namespace carillon
