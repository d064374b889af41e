// The kernels of kernels/dense_classifier, emulated on the CPU, against the definition in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/dense_classifier/gradient_tiles.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

struct Extents {
  std::size_t batch, inputs, hidden, classes;
};
void PrintTo(const Extents& e, std::ostream* to) {
  *to << e.batch << "x" << e.inputs << "x" << e.hidden << "x" << e.classes;
}

/// Positions in a flat array with gaps, the last variable first.
struct Layout {
  explicit Layout(const Extents& e)
      : weights2(aligned_float_count(e.classes)),
        biases1(weights2 + aligned_float_count(e.hidden * e.classes)),
        weights1(biases1 + aligned_float_count(e.hidden)),
        total(weights1 + aligned_float_count(e.inputs * e.hidden)) {}
  std::size_t biases2 = 0, weights2, biases1, weights1, total;
};

struct Outcome {
  std::vector<float> gradients;  ///< the flat array
  std::vector<float> step_sums;
};

class ClassifierKernels : public ::testing::TestWithParam<Extents> {
 protected:
  static constexpr std::uint32_t row_count = 211;
  static constexpr float scale = 1.0f / 255.0f;

  void SetUp() override {
    std::vector<std::int32_t> labels(row_count);
    for (std::uint32_t i = 0; i < row_count; ++i) labels[i] = static_cast<std::int32_t>(i * 31 % e_.classes);
    ring_.emplace(e_.batch, 2, e_.inputs, random_bytes(row_count * e_.inputs, 5), labels);
    ring_->step_counter = 3;
    rows_ = scattered_rows(e_.batch, row_count);
    ring_->put(3, {.request_sync = 0.5f}, rows_);
    values_ = random_values(layout_.total, 8, -0.1f, 0.1f);
  }

  ClassifierActivations activations() {
    const std::size_t count = e_.batch * e_.hidden;
    ClassifierActivations of{.batch = static_cast<int>(e_.batch),
                             .inputs = static_cast<int>(e_.inputs),
                             .hidden = static_cast<int>(e_.hidden),
                             .classes = static_cast<int>(e_.classes),
                             .scale = scale};
    products_ = filled<float>(static_cast<std::size_t>(of.chunks()) * count);
    h_ = dh_ = filled<float>(count);
    dz_ = filled<float>(e_.batch * ClassifierLimits::classes);
    of.products = products_.data();
    of.h = h_.data();
    of.dh = dh_.data();
    of.dz = dz_.data();
    return of;
  }

  Outcome of_kernels(ThreadOrder order = ThreadOrder::ascending) {
    const ClassifierActivations of = activations();
    Outcome result{filled<float>(layout_.total), filled<float>(step_sum_count)};
    std::vector<double> losses(e_.batch, NAN);
    std::uint32_t blocks_done = 0;
    with_rows_per_thread(of.batch, [&]<int rows>(std::integral_constant<int, rows>) {
      emulate(HiddenProducts<rows>{.table = ring_->table(), .weights = values_.data() + layout_.weights1, .of = of},
              order);
    });
    emulate(LogitGradients{.table = ring_->table(),
                           .biases1 = values_.data() + layout_.biases1,
                           .weights2 = values_.data() + layout_.weights2,
                           .biases2 = values_.data() + layout_.biases2,
                           .of = of,
                           .losses = losses.data(),
                           .blocks_done = &blocks_done,
                           .step_sums = result.step_sums.data()},
            order);
    EXPECT_EQ(blocks_done, 0u);
    const GradientTiles tiles{.table = ring_->table(),
                              .of = of,
                              .weights1 = layout_.weights1,
                              .biases1 = layout_.biases1,
                              .weights2 = layout_.weights2,
                              .biases2 = layout_.biases2};
    emulate(TileKernel<StoreGradients>{.tiles = tiles, .consumer = {result.gradients.data()}}, order);
    return result;
  }

  /// The definition (classifier_step.h), in double.
  void add_sample(std::size_t sample, std::vector<double>& gradients, double& loss) const {
    const std::uint8_t* const pixels = ring_->image(rows_[sample]);
    const auto label = static_cast<std::size_t>(ring_->label(rows_[sample]));
    const auto value = [&](std::size_t variable, std::size_t i) { return static_cast<double>(values_[variable + i]); };
    std::vector<double> x(e_.inputs), h(e_.hidden), z(e_.classes);
    for (std::size_t k = 0; k < e_.inputs; ++k) x[k] = pixels[k] / 255.0;
    for (std::size_t j = 0; j < e_.hidden; ++j) {
      h[j] = value(layout_.biases1, j);
      for (std::size_t k = 0; k < e_.inputs; ++k) h[j] += x[k] * value(layout_.weights1, k * e_.hidden + j);
      h[j] = std::max(h[j], 0.0);
    }
    for (std::size_t c = 0; c < e_.classes; ++c) {
      z[c] = value(layout_.biases2, c);
      for (std::size_t j = 0; j < e_.hidden; ++j) z[c] += h[j] * value(layout_.weights2, j * e_.classes + c);
    }
    double sum = 0.0;
    for (const double logit : z) sum += std::exp(logit);
    const auto batch = static_cast<double>(e_.batch);
    loss += (std::log(sum) - z[label]) / batch;
    std::vector<double> dh(e_.hidden);
    for (std::size_t c = 0; c < e_.classes; ++c) {
      const double dz = (std::exp(z[c]) / sum - (c == label ? 1.0 : 0.0)) / batch;
      gradients[layout_.biases2 + c] += dz;
      for (std::size_t j = 0; j < e_.hidden; ++j) {
        gradients[layout_.weights2 + j * e_.classes + c] += h[j] * dz;
        if (h[j] > 0.0) dh[j] += dz * value(layout_.weights2, j * e_.classes + c);
      }
    }
    for (std::size_t j = 0; j < e_.hidden; ++j) {
      gradients[layout_.biases1 + j] += dh[j];
      for (std::size_t k = 0; k < e_.inputs; ++k) gradients[layout_.weights1 + k * e_.hidden + j] += x[k] * dh[j];
    }
  }

  const Extents e_ = GetParam();
  const Layout layout_{e_};
  std::optional<StepRing> ring_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> values_, products_, h_, dh_, dz_;
};

/// Below a tile, just above it, all limits, and MNIST's extents.
INSTANTIATE_TEST_SUITE_P(Extents, ClassifierKernels,
                         ::testing::Values(Extents{1, 4, 4, 1}, Extents{8, 784, 20, 10}, Extents{65, 60, 68, 3},
                                           Extents{113, 112, 128, 9}, Extents{128, 1024, 512, 16},
                                           Extents{3, 36, 1024, 8}, Extents{100, 784, 500, 10}));

TEST_P(ClassifierKernels, EqualTheDefinition) {
  const Outcome found = of_kernels();
  std::vector<double> expected(layout_.total);
  double loss = 0.0;
  for (std::size_t sample = 0; sample < e_.batch; ++sample) add_sample(sample, expected, loss);
  EXPECT_NEAR(found.step_sums[loss_sum], loss, 1e-6 * std::max(loss, 1.0));
  EXPECT_EQ(found.step_sums[sync_sum], 0.5f);
  const auto part = [](const auto& of, std::size_t first, std::size_t count) {
    return std::span(of).subspan(first, count);
  };
  const auto expect_variable = [&](std::size_t first, std::size_t count) {
    EXPECT_LT(relative_error(part(found.gradients, first, count), part(expected, first, count)), 1e-6);
  };
  expect_variable(layout_.biases2, e_.classes);
  expect_variable(layout_.weights2, e_.hidden * e_.classes);
  expect_variable(layout_.biases1, e_.hidden);
  expect_variable(layout_.weights1, e_.inputs * e_.hidden);
}

TEST_P(ClassifierKernels, HaveEqualBitsInAnyOrderOfThreads) {
  const Outcome one = of_kernels(ThreadOrder::ascending), other = of_kernels(ThreadOrder::descending);
  EXPECT_EQ(one.step_sums[loss_sum], other.step_sums[loss_sum]);
  EXPECT_TRUE(equal_bits(one.gradients, other.gradients));
}

/// A gap holds what it held, or zeros where the biases of the classes end within a pack.
TEST_P(ClassifierKernels, WriteNoGapOfTheFlatArray) {
  const Outcome found = of_kernels();
  std::vector<bool> is_variable(layout_.total);
  const auto mark = [&](std::size_t first, std::size_t count) {
    std::fill_n(is_variable.begin() + static_cast<std::ptrdiff_t>(first), count, true);
  };
  mark(layout_.biases2, e_.classes);
  mark(layout_.weights2, e_.hidden * e_.classes);
  mark(layout_.biases1, e_.hidden);
  mark(layout_.weights1, e_.inputs * e_.hidden);
  for (std::size_t i = 0; i < layout_.total; ++i) {
    const bool ends_pack = i < (e_.classes + 3) / 4 * 4;
    const float gradient = found.gradients[i];
    ASSERT_EQ(std::isnan(gradient), !is_variable[i] && !ends_pack) << i;
    if (!is_variable[i] && ends_pack) {
      ASSERT_EQ(gradient, 0.0f) << i;
    }
  }
}

TEST_P(ClassifierKernels, PassNanAndInfinityOnToTheLoss) {
  for (const std::size_t variable : {layout_.weights1, layout_.biases1, layout_.weights2, layout_.biases2}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      SetUp();
      for (std::size_t j = 0; j < e_.hidden; ++j) values_[layout_.biases1 + j] = 10.0f;  // the ReLU passes all on
      values_[variable] = bad;
      EXPECT_FALSE(std::isfinite(of_kernels().step_sums[loss_sum])) << variable;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
