// Console: the reference's step lines on stdout, and a progress bar on stderr where that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace carillon {

/// "2026-11-20 04:22:00.123456: step 10, loss = 4.64 (839.8 examples/sec; 0.152 sec/batch)", local time.
/// `step_seconds`: of one synchronous step; sec/batch is that over the number of towers, as the reference prints it.
std::string step_line(std::chrono::system_clock::time_point time, std::int64_t step, double loss,
                      double examples_per_second, double step_seconds, int tower_count);

class Console {
 public:
  Console(std::int64_t first_step, std::int64_t last_step);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// A line on stdout.
  void print(const std::string& line);
  /// A line on stderr.
  void warn(const std::string& line);
  /// Redraws the bar, at most ten times a second.
  void progress(std::int64_t step, double loss);

 private:
  void clear_bar();

  std::int64_t first_step_, last_step_;
  bool has_bar_;
  bool bar_drawn_ = false;
  std::chrono::steady_clock::time_point started_, last_drawn_;
};

}  // namespace carillon
