// StepQueue: the bookkeeping of a device that is given steps ahead.
//
// Steps take the slots of a ring in turn. Steps that follow each other are uploaded and launched together: when they
// are a block, or earlier when their results are wanted. A slot is used again only when the launch that read it is
// over.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>

#include "src/step/drivers/driver.h"

namespace carillon {

/// What the queue asks of a device. Slots count from 0 to below the ring's capacity.
class StepEngine {
 public:
  virtual ~StepEngine() = default;
  /// Notes a step's inputs for `slot`, in the host's memory; they may be gone when it returns.
  virtual void write(std::uint32_t slot, const StepRequest& request) = 0;
  /// Enqueues: the inputs of `count` slots from `first`, round the ring, to the device, then that many steps.
  /// `before_update`: of the one step, if any.
  virtual void launch(std::uint32_t first, std::uint32_t count, const std::function<void()>& before_update) = 0;
  /// Returns when the oldest launch not yet waited for is over. Errors: failed (the device's, a lost peer).
  virtual void wait_for_oldest() = 0;
  /// Of the step in `slot`, which is over.
  virtual StepOutcome outcome(std::uint32_t slot) const = 0;
};

struct StepRingForm {
  std::uint32_t block = 1;   ///< steps of a block; a power of two, as is
  std::uint32_t blocks = 1;  ///< at least 2
  std::uint32_t capacity() const { return block * blocks; }
};

/// The ring of a device that is given such steps ahead: as many to a block, rounded down to a power of two, as fit
/// into some memory when their images are copied.
StepRingForm ring_form(std::size_t batch_size, std::size_t image_bytes);

class StepQueue {
 public:
  StepQueue(StepEngine& engine, StepRingForm form) : engine_(engine), form_(form) {}

  /// Takes a step; it is launched with its block, or at once if `at_once` or when it has a `before_update`.
  void push(const StepRequest& request, bool at_once);
  /// Launches what is not yet launched.
  void flush() { launch_pushed({}); }
  /// As StepDriver::next_result; steps of up to all blocks but one stay under way.
  std::optional<StepResult> next_result(Results wanted);

 private:
  struct Launch {
    std::uint64_t first;
    std::uint32_t count;
    std::chrono::steady_clock::time_point enqueued;
  };

  void launch_pushed(const std::function<void()>& before_update);
  /// Waits for all launches that begin before step `index`.
  void complete_before(std::uint64_t index);
  std::uint32_t slot_of(std::uint64_t index) const { return static_cast<std::uint32_t>(index % form_.capacity()); }

  StepEngine& engine_;
  StepRingForm form_;
  std::uint64_t pushed_ = 0, launched_ = 0, completed_ = 0;  ///< steps; also the next one's index
  std::deque<std::int64_t> numbers_;                         ///< StepRequest::step of all that are not completed
  std::deque<Launch> launches_;                              ///< under way, oldest first
  std::deque<StepResult> results_;                           ///< completed and not taken
  std::chrono::steady_clock::time_point last_end_ = std::chrono::steady_clock::time_point::min();  ///< of a launch
};

}  // namespace carillon
