// DirectoryLock: one job at a time writes a train directory.
#pragma once

#include <filesystem>

#include "carillon/core/file.h"

namespace carillon {

/// Holds `directory/.lock` (flock) until destroyed or the process is gone, so a dead holder's lock is free.
class DirectoryLock {
 public:
  /// Makes the directory if it is missing. Errors: io (cannot be made or written), usage (another job holds it: names
  /// host, process and Slurm job).
  explicit DirectoryLock(const std::filesystem::path& directory);

 private:
  Descriptor descriptor_;
};

}  // namespace carillon
