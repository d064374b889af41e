#include "src/report/console.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "carillon/core/error.h"
#include "src/core/text.h"

namespace carillon {

std::string step_line(std::chrono::system_clock::time_point time, std::int64_t step, double loss,
                      double examples_per_second, double step_seconds, int tower_count,
                      std::optional<double> gradient_norm) {
  using namespace std::chrono;
  const auto microseconds_part = duration_cast<microseconds>(time.time_since_epoch()).count() % 1000000;
  std::string line =
      fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06d}: step {}, loss = {:.2f} ({:.1f} examples/sec; {:.3f} sec/batch)",
                  fmt::localtime(system_clock::to_time_t(time)), microseconds_part, step, loss, examples_per_second,
                  step_seconds / tower_count);
  if (gradient_norm) line += fmt::format(", gradient norm = {:.3g}", *gradient_norm);
  return line;
}

void print_warning(const std::string& line) {
  print_text(STDERR_FILENO, fmt::format("warning: {}\n", printable(line)));
}

Console::Console(std::int64_t first_step, std::int64_t last_step)
    : progress_(first_step, last_step, progress_output()) {}

Console::~Console() { progress_.clear(); }

void Console::print(const std::string& line) {
  progress_.clear();
  const std::string whole = printable(line, line.size()) + note_ + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stdout);
  std::fflush(stdout);
}

void Console::warn(const std::string& line) {
  progress_.clear();
  print_warning(line);
}

void Console::progress(std::int64_t step, std::optional<double> loss) { progress_.update(step, loss); }

}  // namespace carillon
