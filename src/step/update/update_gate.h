// UpdateGate: lets another thread stop the steps of a rank between two updates, in order to save its variables.
#pragma once

#include <unistd.h>

#include <atomic>

namespace carillon {

class UpdateGate {
 public:
  /// The thread that takes steps calls it before it changes variables, slots or saved buffers, and before it allows
  /// other ranks to change slots that they share. Blocks for ever once the updates are stopped. Has no effect until
  /// `leave` if called again.
  void enter() {
    State expected = State::open;
    while (state_.load(std::memory_order_relaxed) != State::entered &&
           !state_.compare_exchange_weak(expected, State::entered, std::memory_order_acquire)) {
      if (expected == State::stopped) pause();  // until the process ends
      expected = State::open;
    }
  }
  /// Call it when the step is complete: `stop` can succeed again.
  void leave() {
    State expected = State::entered;
    state_.compare_exchange_strong(expected, State::open, std::memory_order_release);
  }
  /// Any thread: prevents all further updates. False if the rank is in one.
  bool stop() {
    State expected = State::open;
    return state_.compare_exchange_strong(expected, State::stopped, std::memory_order_acquire) ||
           expected == State::stopped;
  }

 private:
  enum class State { open, entered, stopped };
  std::atomic<State> state_{State::open};
};

}  // namespace carillon
