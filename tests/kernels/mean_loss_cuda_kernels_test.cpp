#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "kernels/mean_loss/mean_loss.h"
#include "kernels/mean_loss/mean_loss_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

struct Result {
  float loss = 0.0f;
  std::vector<float> gradient;
};

/// The parameter is (batch, columns). Some batches need less than one block. Other batches need several blocks, and the
/// last block is incomplete.
class MeanLossKernels : public ::testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {
 protected:
  static constexpr std::uint32_t row_count = 61;
  static constexpr std::uint64_t first_position = 40;

  MeanLossKernels() {
    const auto samples = static_cast<std::size_t>(batch_);
    ring_.emplace(samples, 2, 1, std::vector<std::uint8_t>(row_count), std::vector<std::int32_t>(row_count));
    ring_->step_counter = 3;
    rows_ = scattered_rows(samples, row_count);
    ring_->put(3, {.first_position = first_position, .request_sync = 0.5f}, rows_);
    outputs_ = random_values(static_cast<std::size_t>(batch_ * columns_), 8, -4.0f, 4.0f);
  }

  /// Returns the targets of all rows: bytes 0 and 1 if Target is std::uint8_t, or numbers if it is float.
  template <typename Target>
  std::vector<Target> targets_of_rows() const {
    std::vector<Target> targets;
    for (std::int64_t i = 0; i < row_count * columns_; ++i) {
      targets.push_back(static_cast<Target>(std::is_same_v<Target, float> ? static_cast<double>(i % 17) / 8.0 - 1.0
                                                                          : static_cast<double>(i % 3 == 0)));
    }
    return targets;
  }

  template <typename Target>
  Result of_cpu(const MeanLossParams& params) const {
    const std::vector<Target> all = targets_of_rows<Target>();
    std::vector<Target> targets;
    for (const std::uint32_t row : rows_) {
      targets.insert(targets.end(), all.begin() + row * columns_, all.begin() + (row + 1) * columns_);
    }
    OpHarness harness(batch_);
    const Value z = harness.input("z", {batch_, columns_});
    const DType type = std::is_same_v<Target, float> ? DType::f32 : DType::u8;
    harness.finish(mean_loss(harness.graph(), "loss", z,
                             harness.target({type, {columns_}}, std::as_writable_bytes(std::span(targets))), params));
    harness.set("z", outputs_);
    harness.step().batch.first_position = first_position;
    const float loss = harness.forward()[0];
    harness.backward();
    const auto gradient = harness.gradient("z");
    return {loss, {gradient.begin(), gradient.end()}};
  }

  template <typename Target>
  Result of_kernels(const MeanLossParams& params, ThreadOrder order) const {
    const std::vector<Target> targets = targets_of_rows<Target>();
    StepTable table = ring_->table();
    table.targets = std::as_bytes(std::span(targets)).data();
    table.target_bytes = static_cast<std::uint32_t>(columns_ * sizeof(Target));
    return with_loss_function(params, [&]<typename F>(const F& function) {
      MeanLossKernel<float, Target, F> kernel{.function = function,
                                              .batch = batch_,
                                              .columns = columns_,
                                              .outputs = outputs_.data(),
                                              .table = table,
                                              .mixing = params.mixing};
      Result result;
      std::vector<double> block_sums(static_cast<std::size_t>(kernel.blocks()), NAN);
      std::uint32_t blocks_done = 0;
      kernel.block_sums = block_sums.data();
      kernel.blocks_done = &blocks_done;
      kernel.loss = &result.loss;
      emulate(kernel, order);
      EXPECT_EQ(blocks_done, 0u) << "the next launch cannot tell its last block";
      result.gradient.resize(outputs_.size(), NAN);
      std::vector<float> step_sums(step_sum_count, -1.0f);
      kernel.loss = nullptr;
      kernel.gradient = result.gradient.data();
      kernel.step_sums = step_sums.data();
      emulate(kernel, order);
      EXPECT_EQ(step_sums[loss_sum], result.loss);
      EXPECT_EQ(step_sums[sync_sum], 0.5f);
      return result;
    });
  }

  template <typename Target>
  void expect_equal_to_cpu(const MeanLossParams& params) const {
    const Result expected = of_cpu<Target>(params), found = of_kernels<Target>(params, ThreadOrder::ascending);
    EXPECT_NEAR(found.loss, expected.loss, 1e-6 * std::abs(expected.loss));
    for (std::size_t i = 0; i < found.gradient.size(); ++i) ASSERT_EQ(found.gradient[i], expected.gradient[i]) << i;
    const Result reversed = of_kernels<Target>(params, ThreadOrder::descending);
    EXPECT_EQ(reversed.loss, found.loss) << "a race";
    EXPECT_EQ(reversed.gradient, found.gradient) << "a race";
  }

  std::int64_t batch_ = GetParam().first, columns_ = GetParam().second;
  std::optional<StepRing> ring_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> outputs_;
};

TEST_P(MeanLossKernels, ComputeWhatTheCpuDoes) {
  for (const MixingParams& mixing : {MixingParams{}, MixingParams{.mixup = 1.0, .seed = 3}}) {
    for (const MeanLossKind kind : {MeanLossKind::sigmoid_cross_entropy, MeanLossKind::squared_error,
                                    MeanLossKind::absolute_error, MeanLossKind::huber}) {
      SCOPED_TRACE(static_cast<int>(kind));
      expect_equal_to_cpu<std::uint8_t>({.kind = kind, .delta = 0.5f, .mixing = mixing});
      expect_equal_to_cpu<float>({.kind = kind, .delta = 0.5f, .mixing = mixing});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, MeanLossKernels, ::testing::Values(std::pair{3, 5}, std::pair{53, 61}));

}  // namespace
}  // namespace carillon::testing
