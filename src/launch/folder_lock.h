// Folder lock: excludes other runs of `carillon` from a folder. Programs that this process starts inherit the lock. So
// it lasts until the training of a killed `carillon` has saved its state.
#pragma once

#include <filesystem>

#include "carillon/core/file.h"

namespace carillon {

class FolderLock {
 public:
  enum class Kind { exclusive, shared };

  /// Creates the folder, and the file `.carillon.lock` in it, if they are missing. Locks nothing yet. Errors: io.
  explicit FolderLock(const std::filesystem::path& folder);

  /// Takes the lock, or changes its kind. Returns false if another process holds one that excludes it; this process may
  /// then have lost the lock that it held. Returns true if the file system has no locks.
  bool try_lock(Kind kind) const;

 private:
  Descriptor file_;
};

}  // namespace carillon
