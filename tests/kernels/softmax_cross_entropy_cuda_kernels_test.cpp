#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

struct Result {
  float loss = 0.0f;
  std::vector<float> gradient;
  std::vector<float> column_sums = {}, step_sums = {};  ///< results of the kernel; empty if the kernel computes no sums
};

class SoftmaxCrossEntropyKernels : public ::testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {
 protected:
  static constexpr std::uint32_t row_count = 409;
  static constexpr std::uint64_t first_position = 40;
  static constexpr float loss_tolerance = 5e-7f;      // relative tolerance; the CPU adds a row's exponentials one by
                                                      // one
  static constexpr float gradient_tolerance = 5e-7f;  // tolerance relative to 1 / batch

  void build(std::int64_t batch, std::int64_t classes) {
    batch_ = batch;
    classes_ = classes;
    const std::size_t samples = static_cast<std::size_t>(batch);
    std::vector<std::int32_t> labels(row_count);
    for (std::uint32_t i = 0; i < row_count; ++i) labels[i] = static_cast<std::int32_t>(i * 31 % classes);
    ring_.emplace(samples, 2, 1, std::vector<std::uint8_t>(row_count), labels);
    ring_->step_counter = 3;
    rows_ = scattered_rows(samples, row_count);
    ring_->put(3, {.first_position = first_position, .request_sync = 0.5f}, rows_);
    logits_ = random_values(static_cast<std::size_t>(batch * classes), 8, -10.0f, 10.0f);
  }

  Result of_cpu(const std::vector<float>& logits) const {
    std::vector<std::int32_t> labels;
    for (const std::uint32_t row : rows_) labels.push_back(ring_->label(row));
    OpHarness harness(batch_);
    const Value z = harness.input("z", {batch_, classes_});
    harness.finish(softmax_cross_entropy(harness.graph(), "loss", z, harness.target(labels),
                                         {smoothing_, mixing_, weights_, gamma_}));
    harness.set("z", logits);
    harness.step().batch.first_position = first_position;
    const float loss = harness.forward()[0];
    harness.backward();
    const auto gradient = harness.gradient("z");
    return {loss, {gradient.begin(), gradient.end()}};
  }

  template <typename T>
  Result of_kernels(const std::vector<T>& logits, ThreadOrder order = ThreadOrder::ascending) const {
    return weights_.empty() && gamma_ == 0.0f ? of_kernels_that<false>(logits, order)
                                              : of_kernels_that<true>(logits, order);
  }

  template <bool weigh_classes, typename T>
  Result of_kernels_that(const std::vector<T>& logits, ThreadOrder order) const {
    return with_softmax_lanes(classes_, [&]<int lanes>(std::integral_constant<int, lanes>) {
      using Kernel = SoftmaxKernel<T, lanes, weigh_classes>;
      const auto blocks = static_cast<std::size_t>(softmax_blocks(batch_, classes_));
      Result result;
      std::vector<double> block_losses(blocks, NAN);
      std::uint32_t blocks_done = 0;
      const Kernel forward{.batch = batch_,
                           .classes = classes_,
                           .logits = logits.data(),
                           .table = ring_->table(),
                           .block_losses = block_losses.data(),
                           .blocks_done = &blocks_done,
                           .loss = &result.loss,
                           .smoothing = smoothing_,
                           .mixing = mixing_,
                           .weights = weights_.empty() ? nullptr : weights_.data(),
                           .gamma = gamma_};
      emulate(forward, order);
      EXPECT_EQ(blocks_done, 0u) << "the next launch cannot tell its last block";
      const float loss = std::exchange(result.loss, 0.0f);
      std::vector<T> gradient(logits.size());
      std::vector<float> block_columns(blocks * static_cast<std::size_t>(classes_), NAN);
      result.column_sums.resize(static_cast<std::size_t>(classes_), NAN);
      result.step_sums.resize(step_sum_count, -1.0f);
      Kernel backward = forward;
      backward.gradient = gradient.data();
      backward.block_columns = block_columns.data();
      backward.column_sums = result.column_sums.data();
      backward.step_sums = result.step_sums.data();
      emulate(backward, order);
      EXPECT_EQ(blocks_done, 0u);
      EXPECT_EQ(std::isnan(result.loss), std::isnan(loss));
      EXPECT_TRUE(std::isnan(loss) || result.loss == loss) << "forward found " << loss;
      for (const T g : gradient) result.gradient.push_back(to_float(g));
      return result;
    });
  }

  /// Expects that each element of found.column_sums is the sum of a column of found.gradient, within 1e-6. Checks the
  /// loss and the sync request in found.step_sums.
  void expect_sums(const Result& found) const {
    for (std::size_t j = 0; j < static_cast<std::size_t>(classes_); ++j) {
      double sum = 0.0;
      for (std::size_t i = j; i < found.gradient.size(); i += static_cast<std::size_t>(classes_)) {
        sum += found.gradient[i];
      }
      ASSERT_NEAR(found.column_sums[j], sum, 1e-6) << j;
    }
    EXPECT_EQ(found.step_sums[loss_sum], found.loss);
    EXPECT_EQ(found.step_sums[sync_sum], 0.5f);
    for (std::size_t i = 2; i < step_sum_count; ++i) EXPECT_EQ(found.step_sums[i], -1.0f) << i;
  }

  void expect_as_on_the_cpu() const {
    const Result expected = of_cpu(logits_);
    const Result ascending = of_kernels(logits_), descending = of_kernels(logits_, ThreadOrder::descending);
    EXPECT_EQ(ascending.loss, descending.loss);
    EXPECT_EQ(ascending.gradient, descending.gradient);
    EXPECT_EQ(ascending.column_sums, descending.column_sums);
    expect_sums(ascending);
    EXPECT_NEAR(ascending.loss, expected.loss, loss_tolerance * expected.loss);
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      ASSERT_NEAR(ascending.gradient[i], expected.gradient[i], gradient_tolerance / static_cast<float>(batch_)) << i;
    }
  }

  void expect_as_on_the_cpu_in_bf16() {
    std::vector<Bf16> logits;
    for (float& z : logits_) z = to_float(logits.emplace_back(to_bf16(z)));
    const Result expected = of_cpu(logits_), found = of_kernels(logits);
    expect_sums(found);
    EXPECT_NEAR(found.loss, expected.loss, loss_tolerance * expected.loss);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const float rounding = std::abs(expected.gradient[i]) / 256;
      ASSERT_NEAR(found.gradient[i], expected.gradient[i], rounding + gradient_tolerance / static_cast<float>(batch_));
    }
  }

  std::int64_t batch_ = 0, classes_ = 0;
  float smoothing_ = 0.0f;
  MixingParams mixing_;
  std::vector<float> weights_;
  float gamma_ = 0.0f;
  std::optional<StepRing> ring_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> logits_;
};

TEST_P(SoftmaxCrossEntropyKernels, MatchTheCpu) {
  build(GetParam().first, GetParam().second);
  for (const auto& [smoothing, mixup] : {std::pair{0.0f, 0.0}, {0.2f, 0.0}, {0.0f, 1.0}, {0.2f, 1.0}}) {
    smoothing_ = smoothing;
    mixing_ = {.mixup = mixup, .seed = 3};
    expect_as_on_the_cpu();
  }
}

TEST_P(SoftmaxCrossEntropyKernels, WithClassWeightsAndFocalLossMatchTheCpu) {
  build(GetParam().first, GetParam().second);
  for (const auto& [smoothing, mixup] : {std::pair{0.0f, 0.0}, {0.2f, 1.0}}) {
    for (const float gamma : {0.0f, 0.5f, 2.0f}) {
      smoothing_ = smoothing;
      mixing_ = {.mixup = mixup, .seed = 3};
      gamma_ = gamma;
      weights_ = random_values(static_cast<std::size_t>(classes_), 9, 0.0f, 2.0f);
      expect_as_on_the_cpu();
    }
  }
  weights_.clear();
  expect_as_on_the_cpu();
}

TEST_P(SoftmaxCrossEntropyKernels, MatchTheCpuOnLogitsOfBf16) {
  build(GetParam().first, GetParam().second);
  expect_as_on_the_cpu_in_bf16();
  gamma_ = 2.0f;
  expect_as_on_the_cpu_in_bf16();
}

INSTANTIATE_TEST_SUITE_P(Shapes, SoftmaxCrossEntropyKernels,
                         ::testing::Values(std::pair{1, 10}, std::pair{3, 10}, std::pair{100, 10}, std::pair{257, 10},
                                           std::pair{8192, 10}, std::pair{20000, 3}, std::pair{3, 1}, std::pair{3, 16},
                                           std::pair{3, 17}, std::pair{100, 100}, std::pair{9, 128}, std::pair{9, 129},
                                           std::pair{1, 1000}, std::pair{100, 1000}, std::pair{257, 1000},
                                           std::pair{3, 2049}));

TEST_F(SoftmaxCrossEntropyKernels, LargeLogitsDoNotOverflow) {
  build(1, 2);
  const float label_logit = ring_->label(rows_[0]) == 0 ? -30000.0f : 30000.0f;
  const Result found = of_kernels(std::vector{label_logit, -label_logit});
  EXPECT_FLOAT_EQ(found.loss, of_cpu({label_logit, -label_logit}).loss);
  EXPECT_EQ(std::abs(found.gradient[0]), 1.0f);
  EXPECT_EQ(found.gradient[0], -found.gradient[1]);
}

TEST_F(SoftmaxCrossEntropyKernels, WhatIsNotFiniteInAnyPlaceReachesTheLoss) {
  for (const float gamma : {0.0f, 2.0f}) {
    gamma_ = gamma;
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const std::size_t place : {0u, 4u, 9u, 10u, 29u}) {
        build(3, 10);
        logits_[place] = bad;
        EXPECT_FALSE(std::isfinite(of_kernels(logits_).loss)) << place;
      }
    }
  }
}

}  // namespace
}  // namespace carillon::testing
