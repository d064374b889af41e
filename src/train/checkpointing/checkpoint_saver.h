// CheckpointSaver: a run's checkpoints on rank 0: written in the background, and again where that fails.
//
// A failure is told in a warning; the same state is written again after 1 s, after the next failure in a row 2 s, and
// so on up to a minute, unless a newer state takes its place. More failures in a row than `max_failures`: gives up.
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
    std::function<void(const std::string&)> warn;  ///< of a line
  };

  CheckpointSaver(std::unique_ptr<CheckpointWriter> writer, Settings settings);

  /// Starts to write; first waits for the write before it.
  void start(CheckpointState state);
  /// Sees what has become of the last write, and tries again what is due.
  void look(Clock::time_point now = Clock::now());
  /// Whether the result of a write is still to be seen.
  bool is_writing() const { return is_writing_; }
  /// The error of the failure that was one too many, from then on.
  const std::optional<Error>& given_up() const { return given_up_; }
  /// Waits until the last state is on disk; what fails is tried again after a second. Throws the error of the failure
  /// that is one too many.
  void finish();

 private:
  void take_result(Clock::time_point now);
  void start_again();

  Settings settings_;
  std::unique_ptr<CheckpointWriter> writer_;
  bool is_writing_ = false;  ///< a write whose result has not been taken
  std::int64_t failures_ = 0;
  std::optional<Error> failed_;  ///< of the last state, which is to be written again
  std::optional<Error> given_up_;
  Clock::time_point retry_at_;
};

}  // namespace carillon
