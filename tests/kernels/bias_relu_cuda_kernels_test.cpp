// Runs the CUDA kernels of bias_relu_backward on the CPU, by loops over blocks and threads (`emulate`), and compares
// the results with the definition and with the CPU implementation.
#include <gtest/gtest.h>

#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/gradient_sums.h"
#include "kernels/shared/rows_cpu.h"
#include "src/device/cpu_device.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t rows, columns;
  bool relu = true;
};

template <typename T>
struct Found {
  std::vector<T> dz;
  std::vector<float> db;
};

/// Allocates the memory that GradientSumsMemory allocates on a GPU, and runs the kernel with this memory.
template <typename Kernel>
void emulate_divided(Kernel kernel, ThreadOrder order) {
  std::vector<float> block_sums = filled<float>(static_cast<std::size_t>(kernel.row_blocks() * kernel.columns));
  std::vector<std::uint32_t> blocks_done(static_cast<std::size_t>(kernel.column_blocks()));
  kernel.block_sums = block_sums.data();
  kernel.blocks_done = blocks_done.data();
  emulate(kernel, order);
  for (const std::uint32_t done : blocks_done) EXPECT_EQ(done, 0u) << "the next launch cannot tell its last block";
}

/// Runs the same kernels as BiasReluBackwardCuda::run.
template <typename T>
Found<T> emulate_backward(const Case& c, const std::vector<T>& y, const std::vector<T>& dy, ThreadOrder order) {
  Found<T> found{dy, filled<float>(static_cast<std::size_t>(c.columns))};
  with_pack_size<T>(c.columns, [&]<int n>(std::integral_constant<int, n>) {
    const auto run_with = [&]<typename F>(F /*function*/) {
      T* const gradient = found.dz.data();
      emulate_divided(divided(GradientSums<T, n, F>{.read = c.relu ? y.data() : nullptr,
                                                    .dy = gradient,
                                                    .dz = gradient,
                                                    .db = found.db.data(),
                                                    .rows = c.rows,
                                                    .columns = c.columns}),
                      order);
    };
    if (c.relu) run_with(ReluMask{});
    if (!c.relu) run_with(NoActivation{});
  });
  return found;
}

/// Returns dz by the definition, and db by the CPU implementation.
Found<float> expected_backward(const Case& c, std::vector<float> y, std::vector<float> dy) {
  const CpuDevice device(1);
  Found<float> expected{dy, std::vector<float>(static_cast<std::size_t>(c.columns))};
  for (std::size_t i = 0; i < y.size(); ++i) expected.dz[i] = !c.relu || y[i] > 0.0f ? dy[i] : 0.0f;
  const Shape shape{c.rows, c.columns};
  BiasReluBackward(c.relu ? Tensor{y.data(), shape} : Tensor{}, {dy.data(), shape}, {expected.db.data(), {c.columns}})
      .run();
  return expected;
}

class BiasReluBackwardKernels : public ::testing::TestWithParam<Case> {
 protected:
  template <typename T>
  void expect_the_definition() {
    const Case& c = GetParam();
    const std::size_t count = static_cast<std::size_t>(c.rows * c.columns);
    std::vector<float> values = random_values(count, 1);
    for (std::size_t i = 0; i < count; i += 5) values[i] = 0.0f;
    if (count > 1) values[1] = std::numeric_limits<float>::quiet_NaN();  // if y is a NaN, dz is 0
    const std::vector<T> y = rounded<T>(values), dy = rounded<T>(random_values(count, 2));
    const Found<float> expected = expected_backward(c, floats(y), floats(dy));
    const Found<T> ascending = emulate_backward(c, y, dy, ThreadOrder::ascending);
    const Found<T> descending = emulate_backward(c, y, dy, ThreadOrder::descending);
    EXPECT_EQ(floats(ascending.dz), expected.dz);
    EXPECT_EQ(floats(descending.dz), expected.dz);
    expect_near(ascending.db, expected.db, 2e-5);
    EXPECT_EQ(ascending.db, descending.db);
  }
};

TEST_P(BiasReluBackwardKernels, EqualTheDefinitionInFloat32) { expect_the_definition<float>(); }
TEST_P(BiasReluBackwardKernels, EqualTheDefinitionInBf16) { expect_the_definition<Bf16>(); }

INSTANTIATE_TEST_SUITE_P(Sizes, BiasReluBackwardKernels,
                         ::testing::Values(Case{1, 1}, Case{5, 3}, Case{5, 3, false}, Case{17, 33}, Case{1000, 1},
                                           Case{128, 10}, Case{128, 10, false}, Case{100, 500}, Case{8192, 12},
                                           Case{2049, 500, false}, Case{128 * 12 * 12, 64}, Case{3001, 64, false},
                                           Case{257, 130}, Case{300, 1000}, Case{2, 20000}));

/// Tests dx and the sum of each column of dx. ActivationWithSums sums the values of dx before it rounds them to T.
class ActivationGradientSums : public ::testing::TestWithParam<Case> {
 protected:
  template <typename T, typename F>
  void expect_gradients_and_sums(const F& function) {
    const Case& c = GetParam();
    const std::size_t count = static_cast<std::size_t>(c.rows * c.columns),
                      columns = static_cast<std::size_t>(c.columns);
    const std::vector<T> x = rounded<T>(random_values(count, 3, -4.0f, 4.0f)), dy = rounded<T>(random_values(count, 4));
    std::vector<T> expected(count);
    std::vector<double> sums(columns);
    for (std::size_t i = 0; i < count; ++i) {
      const float dx = function(to_float(x[i]), to_float(dy[i]));
      expected[i] = stored_as<T>(dx);
      sums[i % columns] += dx;
    }
    std::vector<float> first;
    for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
      std::vector<T> dx = filled<T>(count);
      std::vector<float> db = filled<float>(columns);
      with_pack_size<T>(c.columns, [&]<int n>(std::integral_constant<int, n>) {
        emulate_divided(divided(GradientSums<T, n, F>{.function = function,
                                                      .read = x.data(),
                                                      .dy = dy.data(),
                                                      .dz = dx.data(),
                                                      .db = db.data(),
                                                      .rows = c.rows,
                                                      .columns = c.columns}),
                        order);
      });
      EXPECT_EQ(floats(dx), floats(expected));
      expect_near(db, std::vector<float>(sums.begin(), sums.end()), 2e-5);
      if (order == ThreadOrder::ascending) first = db;
      EXPECT_EQ(db, first);
    }
  }
};

TEST_P(ActivationGradientSums, EqualTheDefinitionInFloat32) {
  expect_gradients_and_sums<float>(GradientOf<Gelu>{});
  expect_gradients_and_sums<float>(GradientOf<Silu>{});
}
TEST_P(ActivationGradientSums, EqualTheDefinitionInBf16) { expect_gradients_and_sums<Bf16>(GradientOf<GeluForBf16>{}); }

INSTANTIATE_TEST_SUITE_P(Sizes, ActivationGradientSums,
                         ::testing::Values(Case{1, 1}, Case{5, 3}, Case{2049, 500}, Case{3001, 64}, Case{2, 20000}));

TEST(BiasReluBackwardKernels, FillAGpuButSumFewBlocks) {
  using Kernel = GradientSums<float, 4, ReluMask>;
  const Kernel kernel = divided(Kernel{.rows = 128 * 24 * 24, .columns = 64});
  EXPECT_GE(kernel.blocks(), 264);
  EXPECT_LE(kernel.row_blocks(), 512);
  EXPECT_EQ(divided(Kernel{.rows = 100, .columns = 500}).row_blocks(), 1);
}

}  // namespace
}  // namespace carillon::testing
