#include "src/optim/sgd_cuda.h"

#include <numeric>
#include <vector>

#include "kernels/shared/launch.cuh"
#include "src/optim/sgd_kernels.h"

namespace carillon {
namespace {

class SgdCuda final : public Optimizer {
 public:
  SgdCuda(const ParameterStore& parameters, Device& device, const StepInputs& inputs)
      : device_(device),
        l2_factors_(uploaded(l2_factors_of_groups(parameters.specs(), parameters.layout()), device)),
        block_sums_(device.allocate(L2SumKernel::most_blocks * sizeof(double))),
        update_{.sums = parameters.step_sums().data(),
                .gradients = parameters.gradients_and_sums().data(),
                .values = parameters.values().data(),
                .averages = parameters.averages().data(),
                .l2_factors = static_cast<const float*>(l2_factors_.data()),
                .table = inputs.table,
                .progress = inputs.progress},
        l2_sum_{.values = update_.values,
                .l2_factors = update_.l2_factors,
                .sums = static_cast<double*>(block_sums_.data())} {
    update_.share.count = l2_sum_.share.count = parameters.layout().total();
  }

  void apply(Stream& stream) override { launch(update_, stream); }

  double l2_loss(Stream& stream) override {
    launch(l2_sum_, stream);
    stream.synchronize();
    std::vector<double> sums(static_cast<std::size_t>(l2_sum_.blocks()));
    device_.download(block_sums_.data(), sums.data(), sums.size() * sizeof(double));
    return 0.5 * std::accumulate(sums.begin(), sums.end(), 0.0);
  }

 private:
  static Buffer uploaded(const std::vector<float>& values, Device& device) {
    Buffer buffer = device.allocate(values.size() * sizeof(float));
    device.upload(values.data(), buffer.data(), buffer.bytes());
    return buffer;
  }

  Device& device_;
  Buffer l2_factors_, block_sums_;
  SgdKernel update_;
  L2SumKernel l2_sum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd_cuda(const ParameterStore& parameters, Device& device, const StepInputs& inputs) {
  return std::make_unique<SgdCuda>(parameters, device, inputs);
}

}  // namespace carillon
