// Heartbeat: a file that a process rewrites every few seconds, so that others see it live without a lock or a clock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace carillon {

/// `limit`: how long a heartbeat may stand still before its process is taken for dead.
struct HeartbeatTimes {
  std::chrono::milliseconds interval{2000};
  std::chrono::milliseconds limit{10000};
};

class Heartbeat {
 public:
  /// Who beats in the file, once it was seen to change; empty where nobody does, at once where there is no file, else
  /// after `limit`, when the dead process's file is removed. No clock is compared with another host's.
  static std::string holder(const std::filesystem::path& path, const HeartbeatTimes& times = {});

  /// Beats for `who`, one line, until destroyed, and removes the file then. A beat that cannot be written is left out.
  /// Errors: usage (another made the file since `holder` looked).
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
