#include <cmath>

#include "carillon/core/error.h"
#include "carillon/optim/lr_schedule.h"
#include "carillon/optim/optimizer.h"
#include "kernels/sgd/sgd.h"

namespace carillon {
namespace {

class SgdCpu final : public Optimizer {
 public:
  explicit SgdCpu(ParameterStore& parameters) : parameters_(parameters) {}

  void apply(const UpdateStep& step, Stream& /*stream*/) override {
    for (const int parameter : parameters_.layout().order()) {
      const SgdParams params{static_cast<float>(step.learning_rate), parameters_.specs()[parameter].l2_factor,
                             static_cast<float>(step.average_decay)};
      sgd_update_cpu(params, parameters_.gradient(parameter).floats(), parameters_.value(parameter).floats(),
                     parameters_.average(parameter).floats());
    }
  }

  double l2_loss(Stream& /*stream*/) override {
    double loss = 0.0;
    for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
      const double factor = parameters_.specs()[i].l2_factor;
      if (factor != 0.0) loss += 0.5 * factor * sum_of_squares_cpu(parameters_.value(static_cast<int>(i)).floats());
    }
    return loss;
  }

 private:
  ParameterStore& parameters_;
};

}  // namespace

double ExponentialDecay::rate(std::int64_t step) const {
  const double exponent = static_cast<double>(step) / decay_steps;
  return initial * std::pow(factor, staircase ? std::floor(exponent) : exponent);
}

std::unique_ptr<Optimizer> make_sgd(ParameterStore& parameters, Device& device) {
  if (device.kind() == DeviceKind::cpu) return std::make_unique<SgdCpu>(parameters);
  fail(ExitCode::no_device, "the optimizer has no form for device {}", device.name());
}

}  // namespace carillon
