// poll_until: waits for a GPU without giving the core away, and looks after other things now and then.
#pragma once

#include <thread>

#include "carillon/core/parallel.h"

namespace carillon {

/// Returns once `done` is true; `check`, in between, may throw.
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
