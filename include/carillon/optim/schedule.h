// Schedule: the learning rate as a function of the step. Schedules are values and can be nested:
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
  /// rate(s): the learning rate of update s, counted from 0.
  explicit Schedule(std::function<double(std::int64_t step)> rate) : rate_(std::move(rate)) {}
  double rate(std::int64_t step) const { return rate_(step); }

 private:
  std::function<double(std::int64_t)> rate_;
};

Schedule constant_rate(double rate);

/// rate(s) = initial * factor^(s / decay_steps); `staircase` rounds the exponent down. Source: TensorFlow,
/// exponential_decay.
struct ExponentialDecay {
  double initial = 0.001;
  double factor = 1.0;
  double decay_steps = 1.0;
  bool staircase = false;
};
Schedule exponential_decay(const ExponentialDecay& decay);

/// rate(s) = final + (initial - final) * (1 + cos(pi * s / steps)) / 2 for s < steps, afterwards `final`. Source:
/// Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, equation 5.
struct CosineDecay {
  double initial = 0.1;
  double final = 0.0;
  std::int64_t steps = 1;
};
Schedule cosine_decay(const CosineDecay& decay);

/// rate(s) = final + (initial - final) * (1 - s / steps)^power for s < steps, afterwards `final`. Source: You, Gitman,
/// Ginsburg, "Large batch training of convolutional networks", 2017; MLPerf's ResNet-50.
struct PolynomialDecay {
  double initial = 0.1;
  double final = 0.0;
  double power = 1.0;
  std::int64_t steps = 1;
};
Schedule polynomial_decay(const PolynomialDecay& decay);

/// rate(s) = initial * factor^n. n: number of milestones <= s. Milestones are in ascending order. Source: PyTorch,
/// MultiStepLR.
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
/// Linear interpolation between points in ascending order of steps. Constant before the first point and after the last.
/// Three points make a triangle. Errors: failed (no point).
Schedule piecewise_linear(std::vector<SchedulePoint> points);

/// rate(s) = from + (then.rate(0) - from) * s / steps for s < steps, afterwards then.rate(s - steps). Source: Goyal and
/// others, "Accurate, large minibatch SGD", 2017, section 2.2.
struct WarmUp {
  double from = 0.0;
  std::int64_t steps = 0;
};
Schedule warm_up(const WarmUp& warm_up, Schedule then);

}  // namespace carillon
