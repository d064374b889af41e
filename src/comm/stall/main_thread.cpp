#include "src/comm/stall/main_thread.h"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <thread>

#include "src/core/process.h"

namespace carillon {
namespace {

/// The signal that is sent to the main thread itself. SIGUSR2 is sent to the process, and any of its threads may take
/// it.
int stack_signal() { return SIGRTMIN; }

int send_stack_signal(int process) { return static_cast<int>(syscall(SYS_tgkill, process, process, stack_signal())); }

constexpr int max_frames = 64;

/// The stack of the handler. Within a matrix product of oneDNN the stack pointer may be at the start of a heap block
/// (src/core/process.h).
alignas(64) std::array<std::byte, 64 << 10> handler_stack;

void print_stack(int) {
  const int error = errno;
  std::array<void*, max_frames> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), max_frames), STDERR_FILENO);
  errno = error;
}

void pass_on(int) {
  const int error = errno;
  send_stack_signal(getpid());
  errno = error;
}

}  // namespace

void catch_stack_signal() {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads the library now, because a handler must not
  const stack_t stack{.ss_sp = handler_stack.data(), .ss_flags = 0, .ss_size = handler_stack.size()};
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = print_stack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(stack_signal(), &action, nullptr);
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
}

void request_stack(int process) {
  if (process == 0 || is_stopped(process) || send_stack_signal(process) != 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

}  // namespace carillon
