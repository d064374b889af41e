#include "carillon/run/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace carillon {
namespace {

volatile std::sig_atomic_t caught = 0;

void note_signal(int signal) {
  if (caught != 0 && signal != SIGUSR1) std::signal(signal, SIG_DFL);
  caught = 1;
}

}  // namespace

void catch_stop_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) std::signal(signal, note_signal);
}

bool stop_signal_caught() { return caught != 0; }

}  // namespace carillon
