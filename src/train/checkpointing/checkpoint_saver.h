// CheckpointSaver: writes the checkpoints of a run in the background on rank 0, and retries failed writes.
//
// A failed write causes a warning. The saver writes the same state again after 1 s, then 2 s, 4 s, up to a minute,
// unless a newer state replaces it. After more than `max_failures` failures in a row it gives up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

class CheckpointSaver {
 public:
  using Clock = std::chrono::steady_clock;
  struct Settings {
    std::int64_t max_failures;                     ///< in a row
    std::function<void(const std::string&)> warn;  ///< hears one line per warning
  };

  CheckpointSaver(std::unique_ptr<CheckpointWriter> writer, Settings settings);

  /// Waits for the previous write and starts to write `state`.
  void start(CheckpointState state);
  /// Takes the result of the last write if it is done, and retries a failed write if it is due.
  void poll(Clock::time_point now = Clock::now());
  /// Whether there is a write without a result yet.
  bool is_writing() const { return is_writing_; }
  /// As CheckpointWriter::newest_complete.
  std::int64_t newest_complete() const { return writer_->newest_complete(); }
  /// The error after which the saver gave up; none: it did not.
  const std::optional<Error>& given_up() const { return given_up_; }
  /// Waits until the last state is on disk, and retries a failed write after a second. Throws the error after which it
  /// gives up.
  void finish();

 private:
  /// `max_pause`: the longest time until a failed checkpoint is written again.
  void take_result(Clock::time_point now, std::chrono::seconds max_pause);
  void start_again();

  Settings settings_;
  std::unique_ptr<CheckpointWriter> writer_;
  bool is_writing_ = false;  ///< the result of a write is not taken yet
  std::int64_t failures_ = 0;
  std::optional<Error> failed_;  ///< the last write failed; it is to be retried
  std::optional<Error> given_up_;
  Clock::time_point retry_at_;
};

}  // namespace carillon
