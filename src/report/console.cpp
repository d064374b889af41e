#include "carillon/report/console.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "carillon/core/error.h"

namespace carillon {

std::string step_line(std::chrono::system_clock::time_point time, std::int64_t step, double loss,
                      double examples_per_second, double step_seconds, int tower_count) {
  using namespace std::chrono;
  const auto microseconds_part = duration_cast<microseconds>(time.time_since_epoch()).count() % 1000000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06d}: step {}, loss = {:.2f} ({:.1f} examples/sec; {:.3f} sec/batch)",
                     fmt::localtime(system_clock::to_time_t(time)), microseconds_part, step, loss, examples_per_second,
                     step_seconds / tower_count);
}

Console::Console(std::int64_t first_step, std::int64_t last_step)
    : first_step_(first_step),
      last_step_(last_step),
      has_bar_(isatty(STDERR_FILENO) != 0),
      started_(std::chrono::steady_clock::now()) {}

Console::~Console() { clear_bar(); }

void Console::print(const std::string& line) {
  clear_bar();
  std::fwrite((line + "\n").data(), 1, line.size() + 1, stdout);
  std::fflush(stdout);
}

void Console::warn(const std::string& line) {
  clear_bar();
  print_text(STDERR_FILENO, fmt::format("warning: {}\n", line));
}

void Console::progress(std::int64_t step, double loss) {
  if (!has_bar_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  constexpr int width = 30;
  const double share = static_cast<double>(step - first_step_) / static_cast<double>(last_step_ - first_step_);
  const std::chrono::duration<double> spent = now - started_;
  const double left = share > 0.0 ? spent.count() * (1.0 - share) / share : 0.0;
  const int filled = static_cast<int>(share * width);
  print_text(STDERR_FILENO, fmt::format("\r\033[K[{:#<{}}{:.<{}}] {:3.0f} %  step {}/{}  loss {:.3f}  {:.0f} s left",
                                        "", filled, "", width - filled, 100.0 * share, step, last_step_, loss, left));
  bar_drawn_ = true;
}

void Console::clear_bar() {
  if (!bar_drawn_) return;
  print_text(STDERR_FILENO, "\r\033[K");
  bar_drawn_ = false;
}

}  // namespace carillon
