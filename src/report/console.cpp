#include "src/report/console.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

#include "carillon/core/error.h"
#include "src/core/process.h"
#include "src/core/text.h"

namespace carillon {
namespace {

/// Returns the file of a process's descriptor: "/dev/pts/3" or "pipe:[4711]". Returns an empty text if it is unknown.
std::string stream_of(pid_t process, int descriptor) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", process, descriptor), error).string();
}

/// True if Open MPI started the process or one of its ancestors.
bool is_of_a_rank(pid_t process) {
  return ('\0' + process_file(process, "environ")).find(std::string("\0OMPI_COMM_WORLD_SIZE=", 22)) !=
         std::string::npos;
}

/// Returns the parent of the process, or 0 if it is unknown.
pid_t parent_of(pid_t process) {
  std::istringstream file(process_file(process, "status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::stol(line.substr(5)));
  }
  return 0;
}

bool is_terminal(const std::string& stream) {
  return stream.starts_with("/dev/pts/") || stream.starts_with("/dev/tty");
}

}  // namespace

bool reaches_terminal(int descriptor) {
  pid_t rank = ::getpid();
  if (!is_of_a_rank(rank)) return ::isatty(descriptor) != 0;
  const std::string own = stream_of(rank, descriptor);
  pid_t launcher = parent_of(rank);
  // The rank's parent may be a wrapper script.
  for (; launcher > 0 && is_of_a_rank(launcher); launcher = parent_of(launcher)) rank = launcher;
  return launcher > 0 && !own.empty() && stream_of(rank, descriptor) == own &&
         is_terminal(stream_of(launcher, descriptor));
}

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

Progress::Progress(std::int64_t first_step, std::int64_t last_step, Output output, Clock::time_point now,
                   std::string_view unit)
    : first_step_(first_step),
      last_step_(last_step),
      unit_(unit),
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
    print_text(output_.descriptor, fmt::format("{} {}/{}, {}\n", unit_, step, last_step_, left));
    due_ = now + line_period;
  }
}

std::string Progress::bar(std::int64_t step, std::optional<double> loss, const std::string& left) const {
  constexpr int width = 20;  // with step numbers of 7 digits, the line has at most 80 columns
  const std::int64_t filled = step * width / last_step_, percent = step * 100 / last_step_;
  return fmt::format("[{:#<{}}{:.<{}}] {:3} %  {} {}/{}{}  {}", "", filled, "", width - filled, percent, unit_, step,
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

std::string step_line(std::chrono::system_clock::time_point time, std::int64_t step, double loss,
                      double examples_per_second, double step_seconds, int tower_count) {
  using namespace std::chrono;
  const auto microseconds_part = duration_cast<microseconds>(time.time_since_epoch()).count() % 1000000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06d}: step {}, loss = {:.2f} ({:.1f} examples/sec; {:.3f} sec/batch)",
                     fmt::localtime(system_clock::to_time_t(time)), microseconds_part, step, loss, examples_per_second,
                     step_seconds / tower_count);
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
