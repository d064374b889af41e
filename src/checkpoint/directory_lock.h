// DirectoryLock: one job at a time writes a train directory.
//
// Two locks (flock) are taken, both free as soon as their holder is dead: of the directory itself, which nobody can
// delete in passing, and of `directory/.lock`, which tells who holds it and works where directories have no locks
// (NFS). Where not both can be had, the holder is known by a file that it rewrites every few seconds (`.heartbeat`).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "carillon/core/file.h"

namespace carillon {

/// What a second run would meet in a train directory: its `.lock` held, free, in a file system without locks, or
/// absent.
enum class LockState { held, free, none, absent };

/// A free lock is held for a moment.
LockState look_at_lock(const std::filesystem::path& directory);

class DirectoryLock {
 public:
  /// Makes the directory if it is missing. Where a heartbeat is found, watches for some seconds whether it goes on.
  /// `warn` is told, in one line each, of that, and of a file system without locks.
  /// Errors: io (the directory or its `.lock` cannot be made or written, or `.lock` is no plain file), usage (another
  /// job holds it: names host, process and Slurm job).
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
