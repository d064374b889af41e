// Console: the lines of a run on stdout and stderr, and the bar or lines that show its progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace carillon {

/// True if output to `descriptor` (stdout or stderr) appears on a terminal. Open MPI gives each rank a pseudo-terminal
/// as stdout and a pipe as stderr. If the rank still uses these two streams, the function tests the launcher's stream
/// instead. If the launcher runs on another host, the result is false.
bool reaches_terminal(int descriptor);

/// Shows how far a run is: a bar on a terminal, otherwise a line every minute.
///
///   [#####...............]  25 %  step 100/400  loss 0.532  12 s left
///   step 100/400, 12 s left
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Form {
    bar,   ///< redrawn in place, at most ten times a second
    lines  ///< the first line after 10 seconds, then one line a minute
  };
  struct Output {
    int descriptor = 2;
    Form form = Form::lines;
  };

  /// Shows a run that starts at `now` and takes the steps [first_step, last_step). The bar of a resumed run begins at
  /// first_step / last_step. `unit`: the name of a step in the output.
  Progress(std::int64_t first_step, std::int64_t last_step, Output output, Clock::time_point now = Clock::now(),
           std::string_view unit = "step");

  /// Changes the end of the run.
  void set_last_step(std::int64_t last_step) { last_step_ = last_step; }
  /// Shows that `step` steps are done. `loss`: the total loss, which the bar shows; nullopt: unknown.
  void update(std::int64_t step, std::optional<double> loss, Clock::time_point now = Clock::now());
  /// Removes the bar before other output. The next update may draw the bar again.
  void clear();

  /// True if this process has drawn a bar, which has no line end, on the terminal. A signal handler may call this.
  static bool has_bar();

 private:
  std::string bar(std::int64_t step, std::optional<double> loss, const std::string& left) const;

  std::int64_t first_step_, last_step_;
  std::string_view unit_;
  Output output_;
  bool bar_drawn_ = false;
  Clock::time_point started_, due_;
};

/// Chooses where to show progress. If stdout reaches a terminal (reaches_terminal), chooses a bar on stdout. If only
/// stderr reaches a terminal, chooses a bar on stderr. Otherwise, and on a dumb terminal, chooses lines on stderr.
Progress::Output progress_output();

/// Returns a duration as text: "12 s", "34 min", "5 h 06 min".
std::string duration_text(double seconds);

/// Returns "2026-11-20 04:22:00.123456: step 10, loss = 4.64 (839.8 examples/sec; 0.152 sec/batch)" with local time.
/// `step_seconds`: seconds of one synchronous step. sec/batch is step_seconds / tower_count, as in the output of the
/// reference program.
std::string step_line(std::chrono::system_clock::time_point time, std::int64_t step, double loss,
                      double examples_per_second, double step_seconds, int tower_count);

/// Prints "warning: <line>" on stderr.
void print_warning(const std::string& line);

/// Prints the lines of a run on stdout and stderr, and its progress between them.
class Console {
 public:
  /// Shows the progress of the steps [first_step, last_step).
  Console(std::int64_t first_step, std::int64_t last_step);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Appends `note` to each later line on stdout.
  void set_note(std::string note) { note_ = std::move(note); }
  /// Prints a line on stdout.
  void print(const std::string& line);
  /// See print_warning.
  void warn(const std::string& line);
  /// See Progress::set_last_step.
  void set_last_step(std::int64_t last_step) { progress_.set_last_step(last_step); }
  /// See Progress::update.
  void progress(std::int64_t step, std::optional<double> loss);

 private:
  Progress progress_;
  std::string note_;
};

}  // namespace carillon
