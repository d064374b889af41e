#include "src/core/signal_thread.h"

#include <unistd.h>

#include <csignal>
#include <thread>

namespace carillon {

void keep_signals_from_computation() {
  std::thread([] {
    while (true) pause();
  }).detach();
  sigset_t kept;
  sigemptyset(&kept);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGXCPU, SIGCONT, SIGUSR1, SIGUSR2}) sigaddset(&kept, signal);
  pthread_sigmask(SIG_BLOCK, &kept, nullptr);
}

}  // namespace carillon
