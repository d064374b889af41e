#include "kernels/dropout/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "kernels/dropout/dropout_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

/// Returns the factor by which the op multiplies each element: its output for an input of ones. `position`: stream
/// position of the batch.
std::vector<float> factors(const Shape& shape, const DropoutParams& params, std::uint64_t position = 0, int threads = 1,
                           const std::string& name = "drop", bool whole_samples = false) {
  OpHarness harness(shape[0], threads);
  harness.step().batch.first_position = position;
  const Value x = harness.input("x", shape);
  harness.finish(whole_samples ? drop_path(harness.graph(), name, x, params)
                               : dropout(harness.graph(), name, x, params));
  std::ranges::fill(harness.values("x"), 1.0f);
  const auto y = harness.forward();
  return {y.begin(), y.end()};
}

TEST(Dropout, KeepsItsShareAndTheMean) {
  for (const float rate : {0.1f, 0.5f, 0.75f}) {
    const std::vector<float> y = factors({16, 10000}, {.rate = rate});
    const auto dropped = std::ranges::count(y, 0.0f);
    EXPECT_NEAR(static_cast<double>(dropped) / 160000.0, rate, 0.005);
    for (const float value : y) ASSERT_TRUE(value == 0.0f || value == 1.0f / (1.0f - rate)) << value;
  }
}

TEST(Dropout, BackwardDropsWhatForwardDropped) {
  for (const std::int64_t size : {1, 7, 1024, 2501}) {
    OpHarness harness(3, 2);
    harness.step().batch.first_position = 1000;
    harness.finish(dropout(harness.graph(), "drop", harness.input("x", {3, size}), {.rate = 0.3f, .seed = 5}));
    const std::vector<float> y(harness.forward().begin(), harness.forward().end());
    harness.backward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float factor = y[i] == 0.0f ? 0.0f : 1.0f / (1.0f - 0.3f);
      ASSERT_FLOAT_EQ(y[i], factor * harness.values("x")[i]) << i;
      ASSERT_FLOAT_EQ(harness.gradient("x")[i], factor * dy[i]) << i;
    }
  }
}

/// For each sample, the op either keeps and scales all elements, or drops all. The batch needs several blocks of random
/// numbers.
TEST(DropPath, DropsWholeSamples) {
  OpHarness harness(2000, 2);
  harness.finish(drop_path(harness.graph(), "drop", harness.input("x", {2000, 9}), {.rate = 0.25f}));
  std::ranges::fill(harness.values("x"), 1.0f);
  const auto y = harness.forward();
  int dropped = 0;
  for (std::size_t b = 0; b < 2000; ++b) {
    dropped += y[9 * b] == 0.0f ? 1 : 0;
    ASSERT_TRUE(y[9 * b] == 0.0f || y[9 * b] == 1.0f / 0.75f) << b;
    for (std::size_t i = 1; i < 9; ++i) ASSERT_EQ(y[9 * b + i], y[9 * b]) << b;
  }
  EXPECT_NEAR(dropped / 2000.0, 0.25, 0.03);
}

TEST(DropPath, ASamplesDrawDependsOnItsPositionOnly) {
  const DropoutParams params{.rate = 0.5f, .seed = 3};
  const std::vector<float> whole = factors({6, 33, 31}, params, 1000, 3, "drop", true);
  for (std::uint64_t b = 0; b < 6; ++b) {
    const std::vector<float> alone = factors({1, 33, 31}, params, 1000 + b, 1, "drop", true);
    EXPECT_TRUE(std::ranges::equal(alone, std::span(whole).subspan(b * 1023, 1023))) << b;
  }
}

TEST(DropPath, GradientsMatchFiniteDifferences) {
  OpHarness harness(6);
  harness.finish(drop_path(harness.graph(), "drop", harness.input("x", {6, 5, 4}), {.rate = 0.5f}));
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

TEST(Dropout, GradientsMatchFiniteDifferences) {
  OpHarness harness(3);
  harness.finish(dropout(harness.graph(), "drop", harness.input("x", {3, 5, 4}), {.rate = 0.3f}));
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

/// A sample's mask must depend neither on how the stream is divided into batches, nor on the number of threads.
TEST(Dropout, ASamplesMaskDependsOnItsPositionOnly) {
  const DropoutParams params{.rate = 0.5f, .seed = 3};
  const std::uint64_t far = (std::uint64_t{1} << 32) - 2;
  const std::vector<float> whole = factors({6, 33, 31}, params, far, 3);
  for (std::uint64_t b = 0; b < 6; ++b) {
    const std::vector<float> alone = factors({1, 33, 31}, params, far + b);
    EXPECT_TRUE(std::ranges::equal(alone, std::span(whole).subspan(b * 1023, 1023))) << b;
  }
}

TEST(Dropout, SeedNamePositionAndElementAllMatter) {
  const DropoutParams params{.rate = 0.5f, .seed = 3};
  const std::vector<float> y = factors({1, 1000}, params);
  EXPECT_EQ(factors({1, 1000}, params), y);
  const auto differing = [&](const std::vector<float>& other) {
    int count = 0;
    for (std::size_t i = 0; i < y.size(); ++i) count += y[i] != other[i] ? 1 : 0;
    return count;
  };
  EXPECT_NEAR(differing(factors({1, 1000}, {.rate = 0.5f, .seed = 4})), 500, 80);
  EXPECT_NEAR(differing(factors({1, 1000}, params, 1)), 500, 80);
  EXPECT_NEAR(differing(factors({1, 1000}, params, std::uint64_t{1} << 32)), 500, 80);
  EXPECT_NEAR(differing(factors({1, 1000}, params, 0, 1, "other")), 500, 80);
  std::vector<float> next(y.begin() + 4, y.end());  // shifted by the 4 numbers of one block of random numbers
  next.resize(1000);
  EXPECT_NEAR(differing(next), 500, 80);
}

TEST(Dropout, IsNoOpInEvaluationAndAtRateZero) {
  Graph graph(1);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {1, 3});
  EXPECT_EQ(dropout(graph, "a", x, {.rate = 0.5f, .training = false}), x);
  EXPECT_EQ(dropout(graph, "b", x, {.rate = 0.0f}), x);
  EXPECT_THROW(dropout(graph, "c", x, {.rate = 1.0f}), Error);
  EXPECT_THROW(dropout(graph, "d", x, {.rate = -0.1f}), Error);
}

template <typename T>
void expect_kernel_as_cpu_form(std::int64_t size, bool whole_samples) {
  constexpr std::uint64_t position = 77;
  const DropoutParams params{.rate = 0.4f, .seed = 9};
  const std::vector<float> expected = factors({3, size}, params, position, 1, "drop", whole_samples);
  StepRing ring(3, 2, 1, {0}, {0});
  ring.step_counter = 5;
  ring.put(5, {.first_position = position}, std::vector<std::uint32_t>{0, 0, 0});
  const DropoutFilter filter({philox_key_of(params.seed, RandomPurpose::dropout, "drop"), params.rate, whole_samples});
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> values(expected.size(), stored_as<T>(1.0f));  // the kernels overwrite their input
    const auto run = [&](const auto& kernel) {
      emulate(ForEachElement{kernel, 3 * std::int64_t{kernel.blocks_per_sample()}}, order);
    };
    const std::uint32_t count = static_cast<std::uint32_t>(size);
    if (size % 4 == 0) run(DropoutApply<T, true>{filter, ring.table(), count, values.data(), values.data()});
    if (size % 4 != 0) run(DropoutApply<T, false>{filter, ring.table(), count, values.data(), values.data()});
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(to_float(values[i]), to_float(stored_as<T>(expected[i]))) << i;
    }
  }
}

TEST(DropoutKernels, EqualTheCpuForm) {
  for (const std::int64_t size : {1, 7, 600, 1030}) {
    for (const bool whole_samples : {false, true}) {
      expect_kernel_as_cpu_form<float>(size, whole_samples);
      expect_kernel_as_cpu_form<Bf16>(size, whole_samples);
    }
  }
}

}  // namespace
}  // namespace carillon::testing
