// StepQueue: tracks the steps that the host enqueues ahead of a device.
//
// Steps use the slots of a ring in turn. Consecutive steps are uploaded and launched together: when they fill a block,
// or earlier when their results are requested. A slot is reused only after the launch that read it has finished.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>

#include "src/step/drivers/driver.h"

namespace carillon {

/// The interface through which the queue uses the device. Slots are numbered 0 to capacity - 1.
class StepEngine {
 public:
  virtual ~StepEngine() = default;
  /// Copies a step's inputs to `slot`, in the host's memory.
  virtual void write(std::uint32_t slot, const StepRequest& request) = 0;
  /// Enqueues the upload of `count` slots from `first` on, modulo the capacity, and then that many steps.
  /// `before_update` requires a launch of a single step; it may be empty.
  virtual void launch(std::uint32_t first, std::uint32_t count, const std::function<void()>& before_update) = 0;
  /// Returns when the oldest launch in flight has finished. Errors: failed (device, lost peer).
  virtual void wait_for_oldest() = 0;
  /// Outcome of the finished step in `slot`.
  virtual StepOutcome outcome(std::uint32_t slot) const = 0;
};

struct StepRingForm {
  std::uint32_t block = 1;   ///< steps per block; a power of two
  std::uint32_t blocks = 1;  ///< a power of two, at least 2
  std::uint32_t capacity() const { return block * blocks; }
};

/// The ring for steps with this batch, each with `passes` forward and backward passes. Limits the steps per block so
/// that the staging memory for images stays small and a captured block has at most 16 passes.
StepRingForm ring_form(std::size_t batch_size, std::size_t image_bytes, std::uint32_t passes = 1);
/// The ring with `slots` slots.
StepRingForm ring_of(std::uint32_t slots);

class StepQueue {
 public:
  StepQueue(StepEngine& engine, StepRingForm form) : engine_(engine), form_(form) {}

  /// Adds a step. Launches it at once if `at_once` or if it has a `before_update`, otherwise with its block.
  void push(const StepRequest& request, bool at_once);
  /// Launches all steps that are not yet launched.
  void flush() { launch_pushed({}); }
  /// As StepDriver::next_result. Results::due keeps up to `blocks - 1` blocks in flight.
  std::optional<StepResult> next_result(Results wanted);

 private:
  struct Launch {
    std::uint64_t first;
    std::uint32_t count;
    std::chrono::steady_clock::time_point enqueued;
  };

  void launch_pushed(const std::function<void()>& before_update);
  /// Waits for all launches that start before step `index`.
  void complete_before(std::uint64_t index);
  std::uint32_t slot_of(std::uint64_t index) const { return static_cast<std::uint32_t>(index % form_.capacity()); }

  StepEngine& engine_;
  StepRingForm form_;
  std::uint64_t pushed_ = 0, launched_ = 0, completed_ = 0;  ///< counts of steps; also the next index
  std::deque<std::int64_t> numbers_;                         ///< StepRequest::step of steps that are not completed
  std::deque<Launch> launches_;                              ///< in flight, oldest first
  std::deque<StepResult> results_;                           ///< completed, not yet returned
  std::chrono::steady_clock::time_point last_end_ = std::chrono::steady_clock::time_point::min();  ///< of a launch
};

}  // namespace carillon
