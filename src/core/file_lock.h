// File locks: flock on open files.
#pragma once

#include <filesystem>

namespace carillon {

/// held: another process holds it. none: the file system has no locks (ENOLCK, ENOTSUP), or none for directories.
enum class LockOutcome { locked, held, none };

/// Tries an exclusive lock, or a shared one, without waiting. The lock ends with the last copy of the descriptor.
LockOutcome try_lock(int descriptor, bool exclusive = true);

/// Whether `path` names the open file. A link is not followed.
bool same_file(int descriptor, const std::filesystem::path& path);

}  // namespace carillon
