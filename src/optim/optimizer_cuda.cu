// The CUDA form of the optimiser: one kernel for all parameters.
#include <numeric>
#include <vector>

#include "kernels/shared/launch.cuh"
#include "src/optim/optimizers.h"
#include "src/optim/update_factors.h"
#include "src/optim/update_kernels.h"

namespace carillon {
namespace {

template <typename T>
Buffer uploaded(const std::vector<T>& values, Device& device) {
  Buffer buffer = device.allocate(values.size() * sizeof(T));
  device.upload(values.data(), buffer.data(), buffer.bytes());
  return buffer;
}

template <UpdateRule Rule>
class OptimizerCuda final : public Optimizer {
 public:
  OptimizerCuda(const OptimizerSettings& settings, const ParameterStore& parameters, Device& device,
                const StepInputs& inputs)
      : device_(device),
        variables_(uploaded(variables_of_lines(parameters.layout()), device)),
        factors_(uploaded(update_factors(settings, parameters.specs()), device)),
        block_sums_(device.allocate(L2SumKernel::max_blocks * sizeof(double))),
        update_{.gradients = parameters.gradients_and_sums().data(),
                .values = parameters.values().data(),
                .averages = parameters.slot(parameters.slot_named(moving_average_slot)).data(),
                .factors = {static_cast<const std::uint32_t*>(variables_.data()),
                            static_cast<const UpdateFactors*>(factors_.data())},
                .table = inputs.table},
        l2_sum_{
            .values = update_.values, .factors = update_.factors, .sums = static_cast<double*>(block_sums_.data())} {
    float** next = update_.slots;
    for (const std::string_view name : Rule::slots) *next++ = parameters.slot(parameters.slot_named(name)).data();
    update_.share.count = l2_sum_.share.count = parameters.layout().total();
  }

  void apply(const StepEnd& end, Stream& stream) override {
    update_.end = end;
    launch(update_, stream);
  }

  double l2_loss(Stream& stream) override {
    launch(l2_sum_, stream);
    stream.synchronize();
    std::vector<double> sums(static_cast<std::size_t>(l2_sum_.blocks()));
    device_.download(block_sums_.data(), sums.data(), sums.size() * sizeof(double));
    return 0.5 * std::accumulate(sums.begin(), sums.end(), 0.0);
  }

 private:
  Device& device_;
  Buffer variables_, factors_, block_sums_;
  UpdateKernel<Rule> update_;
  L2SumKernel l2_sum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer_cuda(const OptimizerSettings& settings, const ParameterStore& parameters,
                                               Device& device, const StepInputs& inputs) {
  return with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) -> std::unique_ptr<Optimizer> {
    return std::make_unique<OptimizerCuda<Rule>>(settings, parameters, device, inputs);
  });
}

}  // namespace carillon
