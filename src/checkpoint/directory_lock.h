// DirectoryLock: ensures that one job at a time writes to a train directory.
//
// It takes two flock locks. Both are released when the holder dies. The lock of the directory itself cannot be deleted
// by accident. The lock of `directory/.lock` names its holder and works if directories cannot be locked (NFS). If one
// of them is not available, the holder rewrites the file `.heartbeat` every few seconds.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "carillon/core/file.h"

namespace carillon {

/// The state of `.lock`: held, free, in a file system without locks, or absent.
enum class LockState { held, free, none, absent };

/// Takes a free lock for a moment to test it.
LockState look_at_lock(const std::filesystem::path& directory);

class DirectoryLock {
 public:
  /// Creates the directory if it is missing. If there is a heartbeat file, observes it for some seconds. Calls `warn`
  /// with one line in that case and if the file system has no locks. Errors: io (directory or `.lock` cannot be created
  /// or written, or `.lock` is not a regular file), usage (another job holds it: names host, process and Slurm job).
  explicit DirectoryLock(
      const std::filesystem::path& directory,
      const std::function<void(const std::string&)>& warn = [](const std::string&) {});
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  bool lock_directory();
  bool lock_file();
  [[noreturn]] void fail_in_use(const std::string& holder) const;

  std::filesystem::path directory_;
  Descriptor directory_lock_, file_lock_;
  std::unique_ptr<class Heartbeat> heartbeat_;
};

}  // namespace carillon
