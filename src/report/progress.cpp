#include "src/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "carillon/core/error.h"
#include "src/core/process.h"
#include "src/report/terminal.h"

namespace carillon {
namespace {

constexpr std::chrono::milliseconds redraw_period{100};
constexpr std::chrono::seconds first_line_after{10}, line_period{60};

std::atomic<bool> bar_is_drawn = false;
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 120.0) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<std::int64_t>(seconds / 60.0);
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

Progress::Progress(std::int64_t first_step, std::int64_t last_step, Output output, Clock::time_point now)
    : first_step_(first_step),
      last_step_(last_step),
      output_(output),
      started_(now),
      due_(output.form == Form::bar ? now : now + first_line_after) {}

void Progress::update(std::int64_t step, std::optional<double> loss, Clock::time_point now) {
  if (now < due_ || step <= first_step_) return;
  const std::chrono::duration<double> spent = now - started_;
  const double steps_left = static_cast<double>(last_step_ - step),
               steps_done = static_cast<double>(step - first_step_);
  const std::string left = duration_text(spent.count() * steps_left / steps_done) + " left";
  if (output_.form == Form::bar) {
    print_text(output_.descriptor, "\r\033[K" + bar(step, loss, left));
    bar_drawn_ = bar_is_drawn = true;
    due_ = now + redraw_period;
  } else {
    print_text(output_.descriptor, fmt::format("step {}/{}, {}\n", step, last_step_, left));
    due_ = now + line_period;
  }
}

std::string Progress::bar(std::int64_t step, std::optional<double> loss, const std::string& left) const {
  constexpr int width = 20;  // with seven digits of steps the whole line has 80 columns at most
  const std::int64_t filled = step * width / last_step_, percent = step * 100 / last_step_;
  return fmt::format("[{:#<{}}{:.<{}}] {:3} %  step {}/{}{}  {}", "", filled, "", width - filled, percent, step,
                     last_step_, loss ? fmt::format("  loss {:.3f}", *loss) : "", left);
}

void Progress::clear() {
  if (!bar_drawn_) return;
  print_text(output_.descriptor, "\r\033[K");
  bar_drawn_ = bar_is_drawn = false;
}

bool Progress::has_bar() { return bar_is_drawn; }

Progress::Output progress_output() {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_dumb_terminal() && reaches_terminal(descriptor)) return {descriptor, Progress::Form::bar};
  }
  return {STDERR_FILENO, Progress::Form::lines};
}

}  // namespace carillon
