#include "kernels/layout/layout.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "carillon/core/error.h"
#include "kernels/layout/layout_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// Maps an index of y on one axis to the index of x on this axis. Returns nullopt if this index of y is padding.
using Source = std::function<std::optional<std::int64_t>(std::size_t axis, std::int64_t index)>;

/// Returns, for each element of y, its position in x, or nullopt for padding.
std::vector<std::optional<std::size_t>> places(const Shape& x, const Shape& y, const Source& source) {
  std::vector<std::optional<std::size_t>> found;
  for (std::int64_t i = 0; i < y.element_count(); ++i) {
    std::int64_t rest = i, stride = 1;
    std::optional<std::size_t> place = 0;
    for (std::size_t axis = y.rank(); axis-- > 0; rest /= y[axis], stride *= x[axis]) {
      const std::int64_t index = rest % y[axis];
      const std::optional<std::int64_t> of = axis == 0 ? std::optional(index) : source(axis, index);
      if (!of || *of < 0 || *of >= x[axis]) place.reset();
      if (place) *place += static_cast<std::size_t>(*of * stride);
    }
    found.push_back(place);
  }
  return found;
}

/// Checks the op's output y and the gradient of x. `value`: the value of the padding.
void expect_selects(const Shape& x, float value, const Source& source, const std::function<Value(Graph&, Value)>& add) {
  for (const int threads : {1, 3}) {
    OpHarness harness(x[0], threads);
    const Value output = add(harness.graph(), harness.input("x", x));
    const auto of = places(x, harness.graph().shape(output), source);
    harness.finish(output);
    const auto y = harness.forward();
    ASSERT_EQ(y.size(), of.size());
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    std::vector<float> dx(static_cast<std::size_t>(x.element_count()), 0.0f);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], of[i] ? harness.values("x")[*of[i]] : value) << i;
      if (of[i]) dx[*of[i]] = dy[i];
    }
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(harness.gradient("x")[i], dx[i]) << i;
    harness.expect_gradients_match_differences(1e-2, 1e-3);
  }
}

/// Checks the CUDA kernels of the forward and the backward pass. `source` maps indices of y to indices of x (Source).
template <typename T>
void expect_kernels_select(const std::vector<PadAxis>& sample, const Source& source) {
  std::vector<std::int64_t> of_x{3}, of_y{3};
  for (const PadAxis& axis : sample) {
    of_x.push_back(axis.x_extent);
    of_y.push_back(axis.y_extent);
  }
  const Shape x_shape(of_x), y_shape(of_y);
  const auto of = places(x_shape, y_shape, source);
  const std::vector<T> x = rounded<T>(random_values(static_cast<std::size_t>(x_shape.element_count()), 1));
  const std::vector<T> dy = rounded<T>(random_values(of.size(), 2));
  const PadAxes axes = pad_axes(sample);
  const std::int64_t x_size = x_shape.elements_per_sample(), y_size = y_shape.elements_per_sample();
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> y = filled<T>(of.size()), dx = filled<T>(x.size());
    emulate(ForEachElement{PadForward<T>{axes, x_size, y_size, stored_as<T>(0.5f), x.data(), y.data()}, 3 * y_size},
            order);
    emulate(ForEachElement{PadForward<T>{gradient_axes(axes), y_size, x_size, T{}, dy.data(), dx.data()}, 3 * x_size},
            order);
    std::vector<float> expected(x.size(), 0.0f);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(to_float(y[i]), of[i] ? to_float(x[*of[i]]) : 0.5f) << i;
      if (of[i]) expected[*of[i]] = to_float(dy[i]);
    }
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(to_float(dx[i]), expected[i]) << i;
  }
}

struct PadCase {
  Shape x;
  PadParams params;
};

class Pad : public ::testing::TestWithParam<PadCase> {
 protected:
  Source source() const {
    return [](std::size_t axis, std::int64_t index) { return index - GetParam().params.before[axis - 1]; };
  }
};

TEST_P(Pad, EqualsTheDefinitionBothWays) {
  expect_selects(GetParam().x, GetParam().params.value, source(),
                 [](Graph& graph, Value x) { return pad(graph, "op", x, GetParam().params); });
}

TEST_P(Pad, KernelsEqualTheDefinition) {
  const auto& [x, params] = GetParam();
  std::vector<PadAxis> sample;
  for (std::size_t k = 0; k + 1 < x.rank(); ++k) {
    const std::int64_t extent = x[k + 1];
    sample.push_back({extent, params.before[k] + extent + params.after[k], 1, -params.before[k], 1});
  }
  expect_kernels_select<float>(sample, source());
  expect_kernels_select<Bf16>(sample, source());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Pad,
    ::testing::Values(PadCase{{3}, {}}, PadCase{{3, 1}, {.before = {2}, .after = {0}, .value = 7.0f}},
                      PadCase{{2, 5, 7}, {.before = {0, 1}, .after = {0, -2}, .value = -1.5f}},
                      PadCase{{2, 5, 7}, {.before = {-4, 3}, .after = {0, 3}}},
                      PadCase{{2, 4, 4}, {.before = {-5, -5}, .after = {3, 9}}},  // y contains no element of x
                      PadCase{{2, 5, 6, 3}, {.before = {1, 2, 0}, .after = {2, 1, 0}}},
                      PadCase{{2, 5, 6, 3}, {.before = {-1, -2, 0}, .after = {-2, -1, 0}}},
                      PadCase{{2, 5, 6, 3}, {.before = {0, 0, 0}, .after = {0, 0, 5}}},
                      PadCase{{60, 9, 10, 16}, {.before = {1, 1, 0}, .after = {1, 1, 0}}}));

struct SliceCase {
  Shape x;
  SliceParams params;
};

class Slice : public ::testing::TestWithParam<SliceCase> {
 protected:
  Source source() const {
    const auto& [x, params] = GetParam();
    return [sliced = slice_axis(params, x), params = params](std::size_t axis, std::int64_t index) {
      return axis == sliced ? params.first + index * params.step : index;
    };
  }
};

TEST_P(Slice, EqualsTheDefinitionBothWays) {
  expect_selects(GetParam().x, 0.0f, source(),
                 [](Graph& graph, Value x) { return slice(graph, "op", x, GetParam().params); });
}

TEST_P(Slice, KernelsEqualTheDefinition) {
  const auto& [x, params] = GetParam();
  std::vector<PadAxis> sample;
  for (std::size_t k = 1; k < x.rank(); ++k) sample.push_back({x[k], x[k]});
  const std::size_t axis = slice_axis(params, x);
  sample[axis - 1] = {x[axis], params.count, params.step, params.first, 1};
  expect_kernels_select<float>(sample, source());
}

INSTANTIATE_TEST_SUITE_P(Shapes, Slice,
                         ::testing::Values(SliceCase{{3, 1}, {}},
                                           SliceCase{{2, 7}, {.first = 1, .count = 3, .step = 2}},
                                           SliceCase{{2, 8}, {.first = 7, .count = 8, .step = -1}},
                                           SliceCase{{2, 8, 3}, {.axis = 1, .first = 6, .count = 3, .step = -3}},
                                           SliceCase{{2, 5, 3, 4}, {.axis = 2, .first = 1, .count = 2, .step = 1}},
                                           SliceCase{{70, 9, 8, 16}, {.axis = 1, .first = 0, .count = 5, .step = 2}}));

TEST(PadAxes, AreAsFewAsPossible) {
  EXPECT_EQ(pad_axes({{5, 5}, {6, 8, 1, -1}, {3, 3}}).count, 2);
  EXPECT_EQ(pad_axes({{5, 5}, {6, 6}, {3, 3}}).count, 1);
  EXPECT_EQ(pad_axes({{5, 3, 2, 0}, {6, 6}}).count, 2);
}

TEST(PadOp, RefusesOtherNumbers) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4});
  const auto refuses = [&](const PadParams& params) { EXPECT_THROW(pad(harness.graph(), "op", x, params), Error); };
  refuses({});
  refuses({.before = {1}, .after = {1, 2}});
  refuses({.before = {1, 2, 3}, .after = {1, 2, 3}});
  refuses({.before = {-2, 0}, .after = {-1, 0}});
  EXPECT_THROW(pad_axes({{5, 5, 1, -max_attribute}, {max_attribute * 8, max_attribute * 8}}), Error);
  const Value long_x = harness.input("long", {2, 2, 2, 2, 2, 2, 2, 2});
  const std::vector<std::int64_t> ones(7, 1);
  EXPECT_THROW(pad(harness.graph(), "op", long_x, {.before = ones, .after = ones}), Error);
}

TEST(SliceOp, RefusesOtherElements) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4});
  const auto refuses = [&](const SliceParams& params) { EXPECT_THROW(slice(harness.graph(), "op", x, params), Error); };
  refuses({.axis = 0});
  refuses({.axis = 3});
  refuses({.count = 0});
  refuses({.count = 5});
  refuses({.first = -1});
  refuses({.first = 4});
  refuses({.first = 1, .count = 2, .step = 3});
  refuses({.first = 1, .count = 3, .step = -1});
  refuses({.count = 1, .step = 0});
  refuses({.count = 2, .step = max_attribute});
}

}  // namespace
}  // namespace carillon::testing
