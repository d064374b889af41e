#include "kernels/mean_loss/mean_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "carillon/core/error.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t batch = 7, columns = 5;
constexpr std::uint64_t first_position = 40;
/// At position 40, mixup draws a lambda that is close neither to 0 nor to 1.
const MixingParams mixup{.mixup = 1.0, .seed = 3};

/// The parameters of a loss op. Also computes the op's definition in double.
struct Case {
  MeanLossParams params;
  std::function<double(double z, double t)> loss;
};

double huber(double error, double delta) {
  return std::abs(error) <= delta ? error * error / 2 : delta * (std::abs(error) - delta / 2);
}

const Case cases[] = {
    {{.kind = MeanLossKind::sigmoid_cross_entropy},
     [](double z, double t) {
       const double p = 1 / (1 + std::exp(-z));
       return -t * std::log(p) - (1 - t) * std::log(1 - p);
     }},
    {{.kind = MeanLossKind::squared_error}, [](double z, double t) { return (z - t) * (z - t); }},
    {{.kind = MeanLossKind::absolute_error}, [](double z, double t) { return std::abs(z - t); }},
    {{.kind = MeanLossKind::huber, .delta = 0.3f}, [](double z, double t) { return huber(z - t, 0.3f); }},
};

class MeanLoss : public ::testing::Test {
 protected:
  /// Builds a graph with the loss. `has_bytes`: whether the targets are bytes 0 and 1 or float numbers.
  void build(const MeanLossParams& params, bool has_bytes) {
    numbers_.clear();
    bytes_.clear();
    for (std::int64_t i = 0; i < batch * columns; ++i) {
      bytes_.push_back(static_cast<std::uint8_t>(i * 5 % 3 == 0));
      numbers_.push_back(has_bytes ? static_cast<float>(bytes_.back()) : static_cast<float>(i * 7 % 11) / 10.0f);
    }
    harness_.emplace(batch);
    const Value z = harness_->input("z", {batch, columns});
    const Value target = harness_->target(
        {.type = has_bytes ? DType::u8 : DType::f32, .shape = {columns}},
        has_bytes ? std::as_writable_bytes(std::span(bytes_)) : std::as_writable_bytes(std::span(numbers_)));
    harness_->finish(mean_loss(harness_->graph(), "loss", z, target, params));
    harness_->step().batch.first_position = first_position;
  }

  double expected(const Case& of, double lambda) {
    double sum = 0.0;
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t other = (b == 0 ? batch - 1 : b - 1) * columns + j;
        const double t = lambda * numbers_[b * columns + j] + (1.0 - lambda) * numbers_[other];
        sum += of.loss(harness_->values("z")[b * columns + j], t);
      }
    }
    return sum / (batch * columns);
  }

  std::optional<OpHarness> harness_;
  std::vector<float> numbers_;
  std::vector<std::uint8_t> bytes_;
};

TEST_F(MeanLoss, ForwardEqualsTheDefinitionForBytesAndNumbers) {
  for (const Case& of : cases) {
    for (const bool has_bytes : {true, false}) {
      build(of.params, has_bytes);
      const double loss = harness_->forward()[0];
      EXPECT_NEAR(loss, expected(of, 1.0), 2e-7) << static_cast<int>(of.params.kind);
    }
  }
}

TEST_F(MeanLoss, TargetsOfMixedImagesAreMixedAsTheseAre) {
  const double lambda = draw_mixing(mixup, first_position).lambda;
  ASSERT_TRUE(lambda > 0.05 && lambda < 0.95) << lambda;
  for (Case of : cases) {
    of.params.mixing = mixup;
    for (const bool has_bytes : {true, false}) {
      build(of.params, has_bytes);
      const double loss = harness_->forward()[0];
      EXPECT_NEAR(loss, expected(of, lambda), 2e-7) << static_cast<int>(of.params.kind);
    }
  }
}

TEST_F(MeanLoss, GradientsMatchFiniteDifferences) {
  for (Case of : cases) {
    for (const bool mixes : {false, true}) {
      of.params.mixing = mixes ? mixup : MixingParams{};
      build(of.params, of.params.kind == MeanLossKind::sigmoid_cross_entropy);
      harness_->expect_gradients_match_differences(1e-3, 2e-3);
    }
  }
}

TEST_F(MeanLoss, LargeLogitsDoNotOverflow) {
  build({.kind = MeanLossKind::sigmoid_cross_entropy}, true);
  std::vector<float> z(batch * columns, 0.0f);
  z[0] = -30000.0f;  // the target of this element is 1
  z[1] = 30000.0f;   // the target of this element is 0
  z[2] = -30000.0f;  // the target of this element is 0
  harness_->set("z", z);
  EXPECT_FLOAT_EQ(harness_->forward()[0], (60000.0f + 32.0f * std::log(2.0f)) / 35.0f);
  harness_->backward();
  EXPECT_EQ(harness_->gradient("z")[0], -1.0f / 35.0f);
  EXPECT_EQ(harness_->gradient("z")[1], 1.0f / 35.0f);
  EXPECT_EQ(harness_->gradient("z")[2], 0.0f);
}

TEST_F(MeanLoss, NotANumberInAnyPlaceReachesLossAndGradient) {
  for (const Case& of : cases) {
    build(of.params, false);
    std::vector<float> z(batch * columns, 1.0f);
    z[17] = std::numeric_limits<float>::quiet_NaN();
    harness_->set("z", z);
    EXPECT_TRUE(std::isnan(harness_->forward()[0])) << static_cast<int>(of.params.kind);
    harness_->backward();
    EXPECT_TRUE(std::isnan(harness_->gradient("z")[17])) << static_cast<int>(of.params.kind);
  }
}

TEST_F(MeanLoss, TargetsOfAnotherShapeOrTypeAreRefused) {
  for (const TargetSpec& spec :
       {TargetSpec{DType::i32, {4}}, TargetSpec{DType::f32, {3}}, TargetSpec{DType::f32, {}}}) {
    OpHarness harness(3);
    const Value z = harness.input("z", {3, 4});
    const Value target = harness.graph().add_target(spec);
    EXPECT_THROW(mean_loss(harness.graph(), "loss", z, target, {}), Error);
    EXPECT_THROW(mean_loss(harness.graph(), "loss", z, z, {}), Error);
  }
}

TEST_F(MeanLoss, AHuberDeltaOfZeroIsRefused) {
  Graph graph(1);
  EXPECT_THROW(mean_loss(graph, "loss", {}, {}, {.kind = MeanLossKind::huber, .delta = 0.0f}), Error);
}

}  // namespace
}  // namespace carillon::testing
