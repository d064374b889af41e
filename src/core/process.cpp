#include "src/core/process.h"

#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "carillon/core/error.h"

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

namespace {

/// Returns the words of this program's command line, each with its NUL. The argv of a caller may lack words that the
/// caller has already parsed.
std::string command_line() { return process_file(getpid(), "cmdline"); }

}  // namespace

void bound_spinning() {
  constexpr const char* variable = "GOMP_SPINCOUNT";
  if (std::getenv(variable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  constexpr const char* rounds = "1000";  // the limit is about 20 to 50 us, the time that it takes to wake a thread
  const auto* const program = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  std::string words = command_line();
  if (program == nullptr || words.empty() || setenv(variable, rounds, 1) != 0) return;
  std::vector<char*> argv;
  for (std::size_t i = 0; i < words.size(); i = words.find('\0', i) + 1) argv.push_back(words.data() + i);
  argv.push_back(nullptr);
  execv(program, argv.data());  // returns only if it fails; in this case, the program runs with the library's limit
}

void flush_denormals() {
#if defined(__x86_64__)
  constexpr unsigned flush_results = 1u << 15, operands_are_zero = 1u << 6;  // bits of the register MXCSR
  _mm_setcsr(_mm_getcsr() | flush_results | operands_are_zero);
#elif defined(__aarch64__)
  constexpr std::uint64_t flush_both = std::uint64_t{1} << 24;  // bit of the register FPCR
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | flush_both));
#endif
}

void flush_stdout() {
  if (std::fflush(stdout) == 0 || errno == EPIPE) return;
  fail(ExitCode::io, "cannot write to standard output: {}", errno_text(errno));
}

namespace {

/// The state of the main thread, and the number of threads, in /proc.
struct ProcessState {
  char letter = '\0';  ///< letter of the thread's state (proc(5)); 0: unknown
  int threads = 0;
  std::string start;  ///< start time, counted from the boot of the host
};

ProcessState state_of(int process) {
  const std::string text = process_file(process, "stat");
  const std::size_t name_end = text.rfind(") ");  // the name in parentheses may contain any character
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 2));
  ProcessState state;
  fields >> state.letter;
  constexpr int fields_between = 16;
  std::string skipped;
  for (int field = 0; field < fields_between; ++field) fields >> skipped;
  fields >> state.threads >> skipped >> state.start;
  return state;
}

}  // namespace

std::string process_file(int process, std::string_view name) {
  // No stream is used, because a stream would throw if the process ends between open and read.
  const int file = open(fmt::format("/proc/{}/{}", process, name).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text;
  std::array<char, 4096> part{};
  ssize_t bytes = 0;
  while ((bytes = read(file, part.data(), part.size())) > 0) text.append(part.data(), static_cast<std::size_t>(bytes));
  close(file);
  return bytes == 0 ? text : std::string();
}

bool is_stopped(int process) {
  const char state = state_of(process).letter;
  return state == 'T' || state == 't';
}

bool process_has_ended(int process) {
  if (kill(process, 0) != 0) return errno == ESRCH;
  const ProcessState state = state_of(process);
  // The main thread has ended, but other threads may still run.
  return (state.letter == 'Z' || state.letter == 'X') && state.threads <= 1;
}

namespace {

/// SIGUSR2 is sent to the process, so any of its threads may receive it. That thread then sends the signal
/// stack_signal() to the main thread.
int stack_signal() { return SIGRTMIN; }

int send_stack_signal(int process) { return static_cast<int>(syscall(SYS_tgkill, process, process, stack_signal())); }

constexpr int max_frames = 64;

/// The handler has its own stack, because within a matrix product of oneDNN the stack pointer may be at the start of a
/// heap block (keep_signals_from_computation).
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
  backtrace(frame.data(), 1);  // loads a library now, because a signal handler must not load libraries
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

int running_children(int process) {
  int count = 0;
  std::error_code ended;
  // increment(error) instead of `++`, which would throw if the process ends during the loop.
  using Threads = std::filesystem::directory_iterator;
  for (Threads thread(fmt::format("/proc/{}/task", process), ended); !ended && thread != Threads();
       thread.increment(ended)) {
    std::ifstream children(thread->path() / "children");
    for (int child = 0; children >> child;) count += process_has_ended(child) ? 0 : 1;
  }
  return count;
}

namespace {

/// Returns the PID namespace and the boot of the host as ":NAMESPACE:BOOT". If these texts are equal for two processes,
/// a process ID means the same process for both.
std::string process_space() {
  struct stat status {};
  if (stat("/proc/self/ns/pid", &status) != 0) return {};
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return fmt::format(":{}:{}", status.st_ino, boot);
}

}  // namespace

std::string process_identity(int process) {
  const ProcessState state = process > 0 ? state_of(process) : ProcessState{};
  return state.letter == '\0' ? "" : fmt::format("{}:{}{}", process, state.start, process_space());
}

bool identified_process_has_ended(const std::string& identity) {
  const int process = std::atoi(identity.c_str());
  if (process <= 0 || !identity.ends_with(process_space())) return false;
  return process_has_ended(process) || process_identity(process) != identity;
}

void exit_after(double seconds, int code) {
  std::thread([seconds, code] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::_Exit(code);
  }).detach();
}

void ignore_file_size_signal() { std::signal(SIGXFSZ, SIG_IGN); }

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace carillon
