// Tests of the rules that need norms: LARS and LAMB.
#include <algorithm>
#include <cmath>

#include "tests/optim/optimizer_fixture.h"

namespace carillon::testing {
namespace {

using Norms = OptimizerTest;

TEST_F(Norms, LarsAndLambTakeTheNormsOfMatricesAloneAndDecayNoOthers) {
  const std::vector<ParameterSpec> variables{{"matrix", {3, 2}, {}, 0.0f}, {"vector", {6}, {}, 0.0f}};
  const ParameterLayout layout(variables);
  for (const std::string_view rule : {"lars", "lamb"}) {
    settings_ = {.rule = std::string(rule),
                 .learning_rate = constant_rate(0.1),
                 .momentum = 0.0,
                 .adam_epsilon = 1e-30,
                 .lars_coefficient = 0.5,
                 .weight_decay = 0.25};
    const ParameterStore parameters(variables, device_, {.gradients = device_.allocate(gradient_bytes(layout))},
                                    optimizer_slots(settings_));
    for (int i = 0; i < 2; ++i) {
      std::ranges::fill(parameters.value(i).floats(), 2.0f);
      std::ranges::fill(parameters.gradient(i).floats(), 3.0f);
    }
    inputs_.scalars = step_scalars(settings_, 0);
    make_optimizer(settings_, parameters, device_, inputs_)
        ->apply({parameters.step_sums().data(), {}}, device_.stream());
    // All values are 2 and all gradients are 3. lars: the trust ratio is 0.5 * 2 / (3 + 0.25 * 2). lamb: the direction
    // of the first step is 1, to which the weight decay adds 0.25 * 2.
    const float of_matrix = rule == "lars" ? 0.1f * (1.0f / 3.5f) * 3.5f : 0.1f * (2.0f / 1.5f) * 1.5f;
    const float of_vector = rule == "lars" ? 0.1f * 3.0f : 0.1f;  // vectors have no decay
    EXPECT_NEAR(parameters.value(0).floats()[5], 2.0f - of_matrix, 1e-6f) << rule;
    EXPECT_NEAR(parameters.value(1).floats()[5], 2.0f - of_vector, 1e-6f) << rule;
  }
}

TEST_F(Norms, NormsAreTheSameBitsAtAnyThreadCount) {
  const std::vector<ParameterSpec> variables{{"matrix", {1000, 101}, {}, 0.01f}, {"vector", {6}, {}, 0.0f}};
  const ParameterLayout layout(variables);
  for (const std::string_view rule : {"lars", "lamb"}) {
    settings_ = {.rule = std::string(rule), .learning_rate = constant_rate(0.1), .weight_decay = 0.25};
    std::vector<float> with_one;
    for (const int threads : {1, 2, 3}) {
      omp_set_num_threads(threads);
      const ParameterStore parameters(variables, device_, {.gradients = device_.allocate(gradient_bytes(layout))},
                                      optimizer_slots(settings_));
      upload_floats(device_, random_values(101000, 1), parameters.value(0));
      upload_floats(device_, random_values(101000, 2), parameters.gradient(0));
      inputs_.scalars = step_scalars(settings_, 0);
      const auto optimizer = make_optimizer(settings_, parameters, device_, inputs_);
      EXPECT_FALSE(is_elementwise(settings_));
      optimizer->apply({parameters.step_sums().data(), {}}, device_.stream());
      if (threads == 1) with_one = all_of(parameters);
      EXPECT_TRUE(equal_bits(all_of(parameters), with_one)) << rule << ", " << threads;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
