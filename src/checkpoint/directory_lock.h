// DirectoryLock: ensures that one job at a time writes to a train directory.
//
// A DirectoryLock takes two flock locks. The system releases both locks when the holder dies. The first lock is on the
// directory itself, which nobody deletes by accident. The second lock is on the file `directory/.lock`. This file names
// the holder, and its lock also works if directories cannot be locked (NFS). If one of the two locks is not available,
// the holder rewrites the file `.heartbeat` every few seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "carillon/core/file.h"

namespace carillon {

/// The state of the lock `.lock`: a process holds it, it is free, the file system has no locks, or the file is absent.
enum class LockState { held, free, none, absent };

/// Returns the state of the lock `directory/.lock`. If the lock is free, the test takes it for a moment.
LockState look_at_lock(const std::filesystem::path& directory);

/// `interval`: time between two heartbeats. `limit`: a process counts as dead if its heartbeat file has not changed for
/// this time.
struct HeartbeatTimes {
  std::chrono::milliseconds interval{2000};
  std::chrono::milliseconds limit{10000};
};

/// A file that a process rewrites every few seconds to show that it is alive. This works without locks, and without
/// comparing clocks.
class Heartbeat {
 public:
  /// Waits until the heartbeat file changes, and returns the name of the process that writes it. If there is no file,
  /// immediately returns an empty text. If the file has not changed after `limit`, removes it and returns an empty
  /// text. Never compares clocks of different hosts. Errors: io (the file cannot be removed).
  static std::string holder(const std::filesystem::path& path, const HeartbeatTimes& times = {});

  /// Rewrites the file with the line `who` until destruction. Destruction removes the file. Ignores write errors.
  /// Errors: usage (another process created the file after the call of `holder`).
  Heartbeat(std::filesystem::path path, std::string who, const HeartbeatTimes& times = {});
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  int beat(int count, int flags) const;

  std::filesystem::path path_;
  std::string who_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

class DirectoryLock {
 public:
  /// Creates the directory if it is missing. If there is a heartbeat file, observes it for some seconds. Calls `warn`
  /// with one line if there is a heartbeat file or if the file system has no locks. Errors: io (directory or `.lock`
  /// cannot be created or written, or `.lock` is not a regular file), usage (another job holds the lock; the message
  /// names host, process and Slurm job).
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
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace carillon
