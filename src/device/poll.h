// poll_until: waits for a GPU by polling, and calls a check between polls.
#pragma once

#include <thread>

#include "carillon/core/parallel.h"

namespace carillon {

/// Returns when `done()` is true. `check` is called every 1024 polls and may throw.
template <typename Done, typename Check>
void poll_until(const Done& done, const Check& check) {
  constexpr int polls_between_checks = 1024;
  for (int polls = 1; !done(); ++polls) {
    if (polls % polls_between_checks == 0) {
      check();
      std::this_thread::yield();
    }
    spin_pause();
  }
}

}  // namespace carillon
