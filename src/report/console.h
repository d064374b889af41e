// Console: prints the lines of a run on stdout and stderr, and its progress between them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "src/report/progress.h"

namespace carillon {

/// "2026-11-20 04:22:00.123456: step 10, loss = 4.64 (839.8 examples/sec; 0.152 sec/batch)", local time.
/// `step_seconds`: of one synchronous step. sec/batch is step_seconds / tower_count, as the reference prints it.
/// `gradient_norm`: if there is one, the line ends in ", gradient norm = 1.37".
std::string step_line(std::chrono::system_clock::time_point time, std::int64_t step, double loss,
                      double examples_per_second, double step_seconds, int tower_count,
                      std::optional<double> gradient_norm = std::nullopt);

/// "warning: <line>" on stderr.
void print_warning(const std::string& line);

class Console {
 public:
  /// For the steps [first_step, last_step).
  Console(std::int64_t first_step, std::int64_t last_step);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Appends `note` to each later line on stdout.
  void set_note(std::string note) { note_ = std::move(note); }
  /// Prints a line on stdout.
  void print(const std::string& line);
  /// As print_warning.
  void warn(const std::string& line);
  /// As Progress::update.
  void progress(std::int64_t step, std::optional<double> loss);

 private:
  Progress progress_;
  std::string note_;
};

}  // namespace carillon
