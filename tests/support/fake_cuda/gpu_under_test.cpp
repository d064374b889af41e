// The functions of tests/gpu/gpu_under_test.h, for the fake GPU.
#include "tests/gpu/gpu_under_test.h"

#include "support/fake_cuda/fake_cuda.h"

namespace carillon::testing {

void set_conditions(const GpuConditions& conditions) {
  fake_cuda::configure({.seed = conditions.seed,
                        .eagerness = conditions.eagerness,
                        .fused_biases = conditions.fused_biases,
                        .divided_bias_gradients = conditions.divided_bias_gradients,
                        .device_bytes = conditions.device_bytes});
}
std::string left_on_gpu() { return fake_cuda::left_over(); }
std::optional<std::uint64_t> graph_launches() { return fake_cuda::counts().graph_launches; }
std::optional<GpuCalls> gpu_calls() {
  const fake_cuda::Counts counts = fake_cuda::counts();
  return GpuCalls{counts.kernels, counts.graph_launches, counts.graph_nodes, counts.copies, counts.waits};
}

}  // namespace carillon::testing
