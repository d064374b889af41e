#include "kernels/shared/rows_cpu.h"

#include <gtest/gtest.h>

#include "src/device/cpu_device.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Found {
  std::vector<float> dz, db;
  bool operator==(const Found&) const = default;
};

Found run(const Shape& shape, bool relu, int threads) {
  const CpuDevice device(threads);  // sets the number of threads
  const std::size_t count = static_cast<std::size_t>(shape.element_count());
  const std::int64_t columns = shape.extents().back();
  std::vector<float> y = random_values(count, 1);
  Found found{random_values(count, 2), std::vector<float>(static_cast<std::size_t>(columns), 9.0f)};
  BiasReluBackward op(relu ? Tensor{y.data(), shape} : Tensor{}, {found.dz.data(), shape},
                      {found.db.data(), {columns}});
  op.run();
  return found;
}

class BiasRelu : public ::testing::TestWithParam<std::tuple<Shape, bool>> {};

TEST_P(BiasRelu, EqualsTheDefinition) {
  const auto& [shape, relu] = GetParam();
  const std::size_t count = static_cast<std::size_t>(shape.element_count());
  const std::vector<float> y = random_values(count, 1), dy = random_values(count, 2);
  const Found found = run(shape, relu, 2);
  std::vector<double> db(found.db.size());
  for (std::size_t i = 0; i < count; ++i) {
    const float dz = relu && y[i] <= 0.0f ? 0.0f : dy[i];
    ASSERT_EQ(found.dz[i], dz) << "element " << i;
    db[i % db.size()] += dz;
  }
  for (std::size_t c = 0; c < db.size(); ++c) EXPECT_NEAR(found.db[c], db[c], 1e-3) << "column " << c;
}

TEST_P(BiasRelu, IsTheSameToTheBitAtAnyNumberOfThreads) {
  const auto& [shape, relu] = GetParam();
  const Found found = run(shape, relu, 1);
  for (const int threads : {2, 3, 4}) EXPECT_TRUE(run(shape, relu, threads) == found) << threads << " threads";
}

INSTANTIATE_TEST_SUITE_P(Sizes, BiasRelu,
                         ::testing::Combine(::testing::Values(Shape{1, 1}, Shape{5, 3}, Shape{17, 33}, Shape{128, 500},
                                                              Shape{33, 24, 23, 7}, Shape{64, 24, 24, 64}),
                                            ::testing::Bool()));

}  // namespace
}  // namespace carillon::testing
