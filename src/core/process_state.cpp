#include "src/core/process_state.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace carillon {
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

}  // namespace carillon
