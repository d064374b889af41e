#include "src/data/records/mapped_copy.h"

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstring>

#include "carillon/core/error.h"

namespace carillon {
namespace {

thread_local sigjmp_buf* way_out = nullptr;  // jump target of this thread's current copy
struct sigaction earlier {};                 // SIGBUS action before the first copy

void leave_copy(int signal, siginfo_t* info, void* /*context*/) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  sigaction(SIGBUS, &earlier, nullptr);
  if (info->si_code <= 0) raise(signal);  // sent by a process: returning does not repeat it
}

bool catch_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = leave_copy;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // the signal must not stay blocked after the jump
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, &earlier) == 0;
}

/// memcpy; returns false if the bytes no longer exist. It has no local objects with destructors, because the jump would
/// skip them.
bool copied(const std::byte* from, std::byte* to, std::size_t count) {
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    way_out = nullptr;
    return false;
  }
  way_out = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, count);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  way_out = nullptr;
  return true;
}

}  // namespace

void copy_mapped(std::span<const std::byte> from, std::byte* to) {
  static const bool ready = catch_bus_errors();
  static_cast<void>(ready);
  if (from.empty() || copied(from.data(), to, from.size())) return;
  fail(ExitCode::data, "the file was truncated while it was in use");
}

}  // namespace carillon
