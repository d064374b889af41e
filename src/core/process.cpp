#include "src/core/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace carillon {

void open_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDONLY));
  }
}

void keep_signals_from_computation() {
  std::thread([] {
    while (true) pause();
  }).detach();
  sigset_t kept;
  sigemptyset(&kept);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGXCPU, SIGCONT, SIGUSR1, SIGUSR2}) sigaddset(&kept, signal);
  pthread_sigmask(SIG_BLOCK, &kept, nullptr);
}

void flush_denormals() {
#if defined(__x86_64__)
  constexpr unsigned flush_results = 1u << 15, operands_are_zero = 1u << 6;  // of MXCSR
  _mm_setcsr(_mm_getcsr() | flush_results | operands_are_zero);
#elif defined(__aarch64__)
  constexpr std::uint64_t flush_both = std::uint64_t{1} << 24;  // of FPCR
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | flush_both));
#endif
}

namespace {

/// The state of the main thread, and the number of threads, in /proc.
struct ProcessState {
  char letter = '\0';  ///< 0: unknown
  int threads = 0;
};

ProcessState state_of(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(") ");  // the name may contain any character
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 2));
  ProcessState state;
  fields >> state.letter;
  constexpr int fields_between = 16;
  std::string skipped;
  for (int field = 0; field < fields_between; ++field) fields >> skipped;
  fields >> state.threads;
  return state;
}

}  // namespace

bool is_stopped(int process) {
  const char state = state_of(process).letter;
  return state == 'T' || state == 't';
}

bool process_has_ended(int process) {
  if (kill(process, 0) != 0) return errno == ESRCH;
  const ProcessState state = state_of(process);
  return (state.letter == 'Z' || state.letter == 'X') && state.threads <= 1;  // other threads may end later
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace carillon
