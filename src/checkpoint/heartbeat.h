// Heartbeat: a file that a process rewrites every few seconds to show that it is alive, without locks or clocks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace carillon {

/// `limit`: a process counts as dead if its file has not changed for this time.
struct HeartbeatTimes {
  std::chrono::milliseconds interval{2000};
  std::chrono::milliseconds limit{10000};
};

class Heartbeat {
 public:
  /// Waits until the file changes, and returns the name of its process. Returns an empty text immediately if there is
  /// no file, and after `limit` if it has not changed; then also removes the file. Compares no clocks of different
  /// hosts. Errors: io (the file cannot be removed).
  static std::string holder(const std::filesystem::path& path, const HeartbeatTimes& times = {});

  /// Rewrites the file with `who`, one line, until destruction, which removes the file. Ignores write errors.
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

}  // namespace carillon
