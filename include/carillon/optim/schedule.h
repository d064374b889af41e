// Schedule: a learning rate as a function of the step; a value, of which others are made.
//
//   warm_up({.steps = 500}, cosine_decay({.initial = 0.4, .steps = 9500}))
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace carillon {

class Schedule {
 public:
  /// rate(s) of update number s, counted from 0.
  explicit Schedule(std::function<double(std::int64_t step)> rate) : rate_(std::move(rate)) {}
  double rate(std::int64_t step) const { return rate_(step); }

 private:
  std::function<double(std::int64_t)> rate_;
};

Schedule constant_rate(double rate);

/// rate(s) = initial * factor^(s / decay_steps); with `staircase` the exponent is rounded down. Source: TensorFlow,
/// exponential_decay.
struct ExponentialDecay {
  double initial = 0.001;
  double factor = 1.0;
  double decay_steps = 1.0;
  bool staircase = false;
};
Schedule exponential_decay(const ExponentialDecay& decay);

/// rate(s) = final + (initial - final) * (1 + cos(pi * s / steps)) / 2, and `final` from `steps` on. Source:
/// Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, equation 5.
struct CosineDecay {
  double initial = 0.1;
  double final = 0.0;
  std::int64_t steps = 1;
};
Schedule cosine_decay(const CosineDecay& decay);

/// rate(s) = final + (initial - final) * (1 - s / steps)^power, and `final` from `steps` on. Source: You, Gitman,
/// Ginsburg, "Large batch training of convolutional networks", 2017; MLPerf's ResNet-50.
struct PolynomialDecay {
  double initial = 0.1;
  double final = 0.0;
  double power = 1.0;
  std::int64_t steps = 1;
};
Schedule polynomial_decay(const PolynomialDecay& decay);

/// rate(s) = initial * factor^n, n of the milestones being s or less; they grow. Source: PyTorch, MultiStepLR.
struct StepDecay {
  double initial = 0.1;
  double factor = 0.1;
  std::vector<std::int64_t> milestones;
};
Schedule step_decay(StepDecay decay);

struct SchedulePoint {
  std::int64_t step = 0;
  double rate = 0.0;
};
/// Lines from schedule point to schedule point, whose steps grow; before the first and after the last the rate is
/// theirs. Three make a triangle. Errors: failed (there is none).
Schedule piecewise_linear(std::vector<SchedulePoint> points);

/// For `steps` steps a line from `from` to the first rate of `then`, which then begins. Source: Goyal and others,
/// "Accurate, large minibatch SGD", 2017, section 2.2.
struct WarmUp {
  double from = 0.0;
  std::int64_t steps = 0;
};
Schedule warm_up(const WarmUp& warm_up, Schedule then);

}  // namespace carillon
