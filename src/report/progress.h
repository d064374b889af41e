// Progress: how far a run is: a bar where there is a terminal, elsewhere a line now and then.
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
    bar,   ///< redrawn in its place, ten times a second at most
    lines  ///< after 10 seconds the first, then one a minute
  };
  struct Output {
    int descriptor = 2;
    Form form = Form::lines;
  };

  /// Of a run that starts now, of steps from `first_step` to before `last_step`.
  Progress(std::int64_t first_step, std::int64_t last_step, Output output, Clock::time_point now = Clock::now());

  /// `step` steps are done. `loss`: the total, where it is known; the bar shows it.
  void update(std::int64_t step, std::optional<double> loss, Clock::time_point now = Clock::now());
  /// Takes the bar away before something else is written, until the next update that draws it.
  void clear();

 private:
  std::string bar(std::int64_t step, std::optional<double> loss, const std::string& left) const;

  std::int64_t first_step_, last_step_;
  Output output_;
  bool bar_drawn_ = false;
  Clock::time_point started_, due_;
};

/// A bar on stdout, where the run's other lines go, if that reaches a terminal (mpirun's, too); else on stderr, if that
/// does; else lines on stderr.
Progress::Output progress_output();

/// "12 s", "34 min", "5 h 06 min"
std::string duration_text(double seconds);

}  // namespace carillon
