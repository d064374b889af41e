// Tests of batch_norm with frozen statistics.
#include "tests/kernels/batch_norm_reference.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

using namespace batch_norm_reference;

class FrozenBatchNorm : public ::testing::TestWithParam<Case> {
 protected:
  FrozenBatchNorm() : harness_(GetParam().shape[0], GetParam().threads), moving_(build_frozen(harness_, GetParam())) {}
  OpHarness harness_;
  Statistics moving_;
};

TEST_P(FrozenBatchNorm, EqualsTheDefinitionForwardAndBackward) {
  expect_the_definition(harness_, GetParam(), 2e-6, &moving_);
}

TEST_P(FrozenBatchNorm, GradientsMatchFiniteDifferences) {
  if (GetParam().activation == ActivationKind::relu) return;  // near the kink of the ReLU, finite differences are wrong
  harness_.expect_gradients_match_differences(1e-2, 1e-2, 20);
}

TEST_P(FrozenBatchNorm, KeepsItsStatisticsAndTrainsAsItEvaluates) {
  const std::vector<float> y = copied(harness_.forward());
  harness_.backward();
  EXPECT_TRUE(equal_bits(copied(harness_.state("norm/moving_mean")), moving_.mean));
  EXPECT_TRUE(equal_bits(copied(harness_.state("norm/moving_variance")), moving_.variance));
  EXPECT_TRUE(equal_bits(copied(harness_.evaluate()), y));
}

INSTANTIATE_TEST_SUITE_P(Sizes, FrozenBatchNorm,
                         ::testing::Values(Case{{4, 1}}, Case{{5, 3}}, Case{{1, 1, 1, 3}},
                                           Case{{7, 3, 3, 5}, {}, ActivationKind::relu},
                                           Case{{8, 4, 4, 3}, {}, ActivationKind::relu, 2},
                                           Case{{33, 129}, {}, ActivationKind::silu},
                                           Case{{64, 9, 5, 33}, unscaled, ActivationKind::relu, 3},
                                           Case{{9, 3, 5, 64}, unscaled, ActivationKind::gelu, 2},
                                           Case{{64, 9, 5, 33}, {}, ActivationKind::gelu, 3},
                                           Case{{8, 4, 4, 3}, {}, ActivationKind::relu, 2, true},
                                           Case{{33, 129}, {}, ActivationKind::none, 1, true}));

TEST(FrozenBatchNorm, DoesAsPyTorchInEvaluationMode) {
  for (const auto& [kind, name] : {std::pair(ActivationKind::none, "none"), std::pair(ActivationKind::relu, "relu"),
                                   std::pair(ActivationKind::gelu, "gelu")}) {
    const std::string prefix = std::string("batch_norm/frozen_") + name + "/";
    OpHarness harness(4);
    build_frozen(harness, {.shape = {4, 3, 2, 5}, .activation = kind});
    const auto set_state = [&](const char* state, const char* array) {
      std::ranges::copy(of_pytorch(array), harness.state(state).begin());
    };
    set_state("norm/moving_mean", "batch_norm/moving_mean");
    set_state("norm/moving_variance", "batch_norm/moving_variance");
    harness.set("norm/gamma", of_pytorch("batch_norm/gamma"));
    harness.set("norm/beta", of_pytorch("batch_norm/beta"));
    harness.set("x", of_pytorch("batch_norm/x2"));
    expect_as_pytorch(harness.forward(), prefix + "y", 1e-6);
    // The tests above compare the op's gradients with the gradients of Reference. This test compares the gradients of
    // Reference with the gradients of PyTorch.
    const Reference expected(of_pytorch("batch_norm/x2"), of_pytorch("batch_norm/dy"), of_pytorch("batch_norm/gamma"),
                             of_pytorch("batch_norm/beta"), {.activation = kind, .frozen = true},
                             {of_pytorch("batch_norm/moving_mean"), of_pytorch("batch_norm/moving_variance")});
    const auto as_floats = [](const std::vector<double>& values) {
      return std::vector<float>(values.begin(), values.end());
    };
    expect_as_pytorch(as_floats(expected.dx), prefix + "dx", 1e-6);
    expect_as_pytorch(as_floats(expected.dgamma), prefix + "dgamma", 1e-6);
    expect_as_pytorch(as_floats(expected.dbeta), prefix + "dbeta", 1e-6);
  }
}

}  // namespace
}  // namespace carillon::testing
