#include <cmath>

#include "carillon/core/error.h"
#include "carillon/optim/lr_schedule.h"
#include "carillon/optim/optimizer.h"
#include "src/optim/sgd.h"
#include "src/optim/sgd_cuda.h"

namespace carillon {
namespace {

class SgdCpu final : public Optimizer {
 public:
  SgdCpu(const ParameterStore& parameters, const StepInputs& inputs) : parameters_(parameters), inputs_(inputs) {}

  void apply(Stream& /*stream*/) override {
    if (!std::isfinite(parameters_.step_sums()[cross_entropy_sum])) return;
    const UpdateStep& step = inputs_.update;
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
  const ParameterStore& parameters_;
  const StepInputs& inputs_;
};

}  // namespace

double ExponentialDecay::rate(std::int64_t step) const {
  const double exponent = static_cast<double>(step) / decay_steps;
  return initial * std::pow(factor, staircase ? std::floor(exponent) : exponent);
}

std::unique_ptr<Optimizer> make_sgd(const ParameterStore& parameters, Device& device, const StepInputs& inputs) {
  if (device.kind() == DeviceKind::cpu) return std::make_unique<SgdCpu>(parameters, inputs);
  if constexpr (has_cuda) return make_sgd_cuda(parameters, device, inputs);
  fail(ExitCode::failed, "this build has no optimizer for device {}", device.name());
}

}  // namespace carillon
