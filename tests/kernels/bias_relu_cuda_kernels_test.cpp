// The GPU's kernels of bias_relu_backward, run by loops, against its definition and the CPU form.
#include <gtest/gtest.h>

#include "kernels/shared/bias_relu_backward.h"
#include "kernels/shared/bias_relu_backward_kernels.h"
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

/// As BiasReluBackwardCuda::run.
template <typename T>
Found<T> emulate_backward(const Case& c, const std::vector<T>& y, const std::vector<T>& dy, ThreadOrder order) {
  Found<T> found{dy, filled<float>(static_cast<std::size_t>(c.columns))};
  const auto run = [&](auto kernel) {
    std::vector<float> block_sums = filled<float>(static_cast<std::size_t>(kernel.row_blocks() * c.columns));
    std::vector<std::uint32_t> blocks_done(static_cast<std::size_t>(kernel.column_blocks()));
    kernel.block_sums = block_sums.data();
    kernel.blocks_done = blocks_done.data();
    emulate(kernel, order);
    for (const std::uint32_t done : blocks_done) EXPECT_EQ(done, 0u) << "the next launch cannot tell its last block";
  };
  with_pack_size<T>(c.columns, [&]<int n>(std::integral_constant<int, n>) {
    if (c.relu) run(column_sums<T, n, true>(y.data(), found.dz.data(), found.db.data(), c.rows, c.columns));
    if (!c.relu) run(column_sums<T, n, false>(nullptr, found.dz.data(), found.db.data(), c.rows, c.columns));
  });
  return found;
}

/// dz by the definition; db by the CPU form.
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
    if (count > 1) values[1] = std::numeric_limits<float>::quiet_NaN();  // no gradient passes it
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

TEST(BiasReluBackwardKernels, FillAGpuButSumFewBlocks) {
  const auto kernel = column_sums<float, 4, true>(nullptr, nullptr, nullptr, 128 * 24 * 24, 64);
  EXPECT_GE(kernel.blocks(), 264);
  EXPECT_LE(kernel.row_blocks(), 512);
  EXPECT_EQ((column_sums<float, 4, true>(nullptr, nullptr, nullptr, 100, 500).row_blocks()), 1);
}

}  // namespace
}  // namespace carillon::testing
