#include "kernels/layout/layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layout/layout_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::vector<Shape> inputs;
  std::int64_t axis;
};

class Concat : public ::testing::TestWithParam<Case> {
 protected:
  static std::string name_of(std::size_t k) { return fmt::format("x{}", k); }
  void build(OpHarness& harness) {
    std::vector<Value> inputs;
    for (std::size_t k = 0; k < GetParam().inputs.size(); ++k) {
      inputs.push_back(harness.input(name_of(k), GetParam().inputs[k]));
    }
    harness.finish(concat(harness.graph(), "concat", inputs, {.axis = GetParam().axis}));
  }
};

TEST_P(Concat, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(GetParam().inputs[0][0], threads);
    build(harness);
    const auto y = harness.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    const std::size_t rank = GetParam().inputs[0].rank();
    const std::size_t axis = GetParam().axis == -1 ? rank - 1 : static_cast<std::size_t>(GetParam().axis);
    std::int64_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      if (i < axis) outer *= GetParam().inputs[0][i];
      if (i > axis) inner *= GetParam().inputs[0][i];
    }
    std::size_t at = 0;
    for (std::int64_t row = 0; row < outer; ++row) {
      for (std::size_t k = 0; k < GetParam().inputs.size(); ++k) {
        const auto size = static_cast<std::size_t>(GetParam().inputs[k][axis] * inner);
        for (std::size_t i = 0; i < size; ++i, ++at) {
          const std::size_t place = static_cast<std::size_t>(row) * size + i;
          ASSERT_EQ(y[at], harness.values(name_of(k))[place]) << at;
          ASSERT_EQ(harness.gradient(name_of(k))[place], dy[at]) << at;
        }
      }
    }
    ASSERT_EQ(at, y.size());
  }
}

TEST_P(Concat, GradientsMatchFiniteDifferences) {
  OpHarness harness(GetParam().inputs[0][0]);
  build(harness);
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Concat,
                         ::testing::Values(Case{{{3, 2}}, -1}, Case{{{3, 1}, {3, 2}, {3, 5}}, 1},
                                           Case{{{2, 2, 7}, {2, 5, 7}}, 1}, Case{{{40, 5, 8}, {40, 5, 15}}, 2},
                                           Case{{{3, 2, 3, 1, 10}, {3, 2, 3, 4, 10}}, 3},
                                           Case{{{70, 9, 9, 16}, {70, 9, 9, 32}, {70, 9, 9, 64}}, -1}));

TEST(ConcatOp, OfTheSameValueTwiceSumsTheGradients) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3});
  harness.finish(concat(harness.graph(), "concat", std::vector<Value>{x, x}));
  harness.forward();
  const std::vector<float> dy = OpHarness::output_gradient(12);
  harness.backward();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(harness.gradient("x")[i], dy[i] + dy[i + 3]);
}

TEST(ConcatOp, UndoesSplit) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 5, 3});
  const std::vector<Value> parts = split(harness.graph(), "split", x, {.axis = 1, .sizes = {1, 3, 1}});
  harness.finish(concat(harness.graph(), "concat", parts, {.axis = 1}));
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], harness.values("x")[i]) << i;
}

TEST(ConcatOp, RefusesOtherAxesAndShapes) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4}), other = harness.input("other", {2, 2, 4}),
              rows = harness.input("rows", {2, 4});
  const auto refuses = [&](const std::vector<Value>& inputs, std::int64_t axis) {
    EXPECT_THROW(concat(harness.graph(), "concat", inputs, {.axis = axis}), Error) << axis;
  };
  refuses({}, 1);
  refuses({x}, 0);
  refuses({x}, 3);
  refuses({x}, -2);
  refuses({x, other}, 2);
  refuses({x, rows}, 1);
}

/// Checks the CUDA kernels that read, write or clear a part of each row. They process packs of n elements.
template <typename T, int n>
void expect_kernels_copy(const PartOfRows& part, std::int64_t rows) {
  const auto row_size = static_cast<std::size_t>(part.row_size), size = static_cast<std::size_t>(part.size);
  const std::vector<T> x = rounded<T>(random_values(static_cast<std::size_t>(rows) * row_size, 1));
  const std::vector<T> dy = rounded<T>(random_values(static_cast<std::size_t>(rows) * size, 2));
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> y = filled<T>(dy.size()), dx = filled<T>(x.size()), zeros = dx;
    const std::int64_t packs = rows * part.size / n;
    emulate(ForEachElement{ReadPart<T, n>{part, x.data(), y.data()}, packs}, order);
    emulate(ForEachElement{WritePart<T, n>{part, dy.data(), dx.data()}, packs}, order);
    emulate(ForEachElement{WritePart<T, n>{part, nullptr, zeros.data()}, packs}, order);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t place = i / size * row_size + static_cast<std::size_t>(part.offset) + i % size;
      ASSERT_EQ(to_float(y[i]), to_float(x[place])) << i;
      ASSERT_EQ(to_float(dx[place]), to_float(dy[i])) << i;
      ASSERT_EQ(to_float(zeros[place]), 0.0f) << i;
    }
  }
}

TEST(RowPartsKernels, CopyAPartOfEachRow) {
  expect_kernels_copy<float, 1>({.row_size = 7, .offset = 2, .size = 3}, 5);
  expect_kernels_copy<float, 4>({.row_size = 32, .offset = 8, .size = 20}, 30);
  expect_kernels_copy<Bf16, 8>({.row_size = 64, .offset = 0, .size = 16}, 50);
}

}  // namespace
}  // namespace carillon::testing
