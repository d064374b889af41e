// Progress: shows how far a run is: a bar on a terminal, otherwise a line every minute.
//
//   [#####...............]  25 %  step 100/400  loss 0.532  12 s left
//   step 100/400, 12 s left
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace carillon {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Form {
    bar,   ///< redrawn in place, at most ten times a second
    lines  ///< the first after 10 seconds, then one a minute
  };
  struct Output {
    int descriptor = 2;
    Form form = Form::lines;
  };

  /// For a run of the steps [first_step, last_step) that starts at `now`. A resumed run begins at its share of all
  /// steps.
  Progress(std::int64_t first_step, std::int64_t last_step, Output output, Clock::time_point now = Clock::now());

  /// `step` steps are done. `loss`: the total loss for the bar; none: unknown.
  void update(std::int64_t step, std::optional<double> loss, Clock::time_point now = Clock::now());
  /// Removes the bar before other output; the next update may draw it again.
  void clear();

  /// Whether a bar of this process stands on the terminal, without a line end. A signal handler may call it.
  static bool has_bar();

 private:
  std::string bar(std::int64_t step, std::optional<double> loss, const std::string& left) const;

  std::int64_t first_step_, last_step_;
  Output output_;
  bool bar_drawn_ = false;
  Clock::time_point started_, due_;
};

/// A bar on stdout if stdout reaches a terminal (mpirun's counts), else a bar on stderr if stderr reaches one, else
/// lines on stderr. A dumb terminal gets no bar.
Progress::Output progress_output();

/// "12 s", "34 min", "5 h 06 min"
std::string duration_text(double seconds);

}  // namespace carillon
