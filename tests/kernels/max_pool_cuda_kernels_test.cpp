// Runs the CUDA kernels of max_pool on the CPU, by loops over blocks and threads (`emulate`). The results must have the
// same bits as the results of the CPU implementation.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/pool/pool_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch, height, width, channels;
  MaxPoolParams params;
  bool relu = false;
  bool biases = false;

  Shape input() const { return {batch, height, width, channels}; }
  MaxPoolGeometry geometry() const {
    const ImageWindows windows = params.windows(input());
    return {.vertical = windows.vertical, .horizontal = windows.horizontal, .relu = relu};
  }
};

std::vector<float> biases_of(const Case& c) { return random_values(static_cast<std::size_t>(c.channels), 2); }

template <typename T>
struct Found {
  std::vector<T> y, dx;
};

template <typename T>
Found<T> emulate_max_pool(const Case& c, const std::vector<T>& x, ThreadOrder order) {
  const MaxPoolGeometry geometry = c.geometry();
  const std::size_t outputs =
      static_cast<std::size_t>(c.batch * geometry.vertical.output * geometry.horizontal.output * c.channels);
  Found<T> found{filled<T>(outputs), filled<T>(x.size())};
  std::vector<std::uint8_t> where(outputs, 0xee);
  const std::vector<T> dy = rounded<T>(OpHarness::output_gradient(outputs));
  const std::vector<float> biases = biases_of(c);
  with_pack_size<T>(c.channels, [&]<int n>(std::integral_constant<int, n>) {
    const PackedPool pool = packed_pool(geometry, c.channels, n);
    with_fixed_window(geometry, [&]<int fixed>(std::integral_constant<int, fixed>) {
      emulate(ForEachElement{MaxPoolForward<T, n, fixed>{.pool = pool,
                                                         .relu = geometry.relu,
                                                         .biases = c.biases ? biases.data() : nullptr,
                                                         .x = x.data(),
                                                         .y = found.y.data(),
                                                         .where = where.data()},
                             static_cast<std::int64_t>(outputs) / n},
              order);
    });
    const auto backward = [&](const std::vector<T>& first, const T* second, std::vector<T>& dx) {
      with_windows_over(geometry, [&]<int over>(std::integral_constant<int, over>) {
        emulate(ForEachElement{MaxPoolBackward<T, n, over>{.pool = pool,
                                                           .y = geometry.relu ? found.y.data() : nullptr,
                                                           .dy = first.data(),
                                                           .second = second,
                                                           .where = where.data(),
                                                           .dx = dx.data()},
                               static_cast<std::int64_t>(x.size()) / n},
                order);
      });
    };
    backward(dy, nullptr, found.dx);
    std::vector<T> twice = dy, less = dy, dx = filled<T>(x.size());
    for (T& gradient : twice) gradient = stored_as<T>(2.0f * to_float(gradient));
    for (T& gradient : less) gradient = stored_as<T>(-to_float(gradient));
    backward(twice, less.data(), dx);
    EXPECT_EQ(floats(dx), floats(found.dx)) << "the gradients of two readers are not added";
  });
  return found;
}

/// Returns y and dx of the CPU implementation. If the case has biases, first adds them to x, because the CUDA kernels
/// add biases and the CPU implementation does not.
Found<float> cpu_max_pool(const Case& c, std::vector<float> x) {
  const std::vector<float> biases = biases_of(c);
  if (c.biases) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += biases[i % biases.size()];
  }
  OpHarness harness(c.batch);
  const Value input = relu_if(c.relu, harness.graph(), harness.input("x", c.input()));
  harness.finish(max_pool(harness.graph(), "pool", input, c.params));
  harness.set("x", x);
  const auto y = harness.forward();
  harness.backward();
  const auto dx = harness.gradient("x");
  return {{y.begin(), y.end()}, {dx.begin(), dx.end()}};
}

/// Expects that all values are equal. Two NaNs count as equal.
void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
        << "element " << i << ": " << found[i] << " instead of " << expected[i];
  }
}

class MaxPoolKernels : public ::testing::TestWithParam<Case> {
 protected:
  void expect_the_cpu_form(const std::vector<float>& x) {
    const Found<float> expected = cpu_max_pool(GetParam(), x);
    for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
      const Found<float> found = emulate_max_pool(GetParam(), x, order);
      expect_same(found.y, expected.y);
      expect_same(found.dx, expected.dx);
    }
  }
  std::size_t size() const { return static_cast<std::size_t>(GetParam().input().element_count()); }
};

TEST_P(MaxPoolKernels, EqualTheCpuForm) { expect_the_cpu_form(random_values(size(), 1)); }

TEST_P(MaxPoolKernels, EqualTheCpuFormAtTiesAndNotNumbers) {
  std::vector<float> x(size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 5 % 3) - 1.0f;  // only -1, 0 and 1
  expect_the_cpu_form(x);
  for (std::size_t i = 3; i < x.size(); i += 41) x[i] = std::nanf("");
  expect_the_cpu_form(x);
}

TEST_P(MaxPoolKernels, RoundTheFloat32ResultInBf16) {
  const std::vector<Bf16> x = rounded<Bf16>(random_values(size(), 1));
  const Found<Bf16> found = emulate_max_pool(GetParam(), x, ThreadOrder::ascending);
  const Found<float> expected = cpu_max_pool(GetParam(), floats(x));
  if (GetParam().biases) {
    expect_near(floats(found.y), expected.y, 0.02);
  } else {
    EXPECT_EQ(floats(found.y), expected.y);  // y is not rounded: each element is a value of x, or 0
  }
  expect_near(floats(found.dx), expected.dx, 0.02);  // dy is rounded to bf16, and so are the sums in dx
  const Found<Bf16> again = emulate_max_pool(GetParam(), x, ThreadOrder::descending);
  EXPECT_EQ(floats(again.dx), floats(found.dx));
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, MaxPoolKernels,
    ::testing::Values(
        Case{1, 1, 1, 1, {.window = 3, .stride = 2}}, Case{1, 2, 3, 5, {.window = 3, .stride = 2}},
        Case{2, 24, 24, 64, {.window = 3, .stride = 2}, true}, Case{3, 12, 12, 64, {.window = 3, .stride = 2}},
        Case{5, 7, 10, 18, {.window = 3, .stride = 2}, true},
        Case{2, 7, 10, 24, {.window = 3, .stride = 2}, true, true},
        Case{2, 6, 9, 5, {.window = 2, .stride = 2}, false, true}, Case{2, 9, 8, 20, {.window = 2, .stride = 2}},
        Case{2, 10, 10, 16, {.window = 2, .stride = 2, .padding = Padding::valid}},
        Case{2, 11, 9, 3, {.window = 3, .stride = 2, .padding = Padding::valid}, true},
        Case{2, 14, 13, 18, {.window = 3, .stride = 2, .padding = Padding::symmetric(1)}, true},
        Case{1, 1, 2, 3, {.window = 3, .stride = 2, .padding = Padding::symmetric(2)}},
        Case{2, 9, 8, 16, {.window = 3, .window_width = 1}}, Case{2, 9, 8, 5, {.window = 1, .window_width = 7}},
        Case{2, 9, 8, 5, {.window = 3, .stride = 2, .stride_width = 1}},
        Case{2, 9, 8, 16, {.window = 2, .stride = 1, .stride_width = 3}},
        Case{2, 9, 8, 16, {.window = 3, .stride = 2, .pads = {0, 0, 1, 1}}},
        Case{2, 9, 8, 3, {.window = 3, .stride = 2, .pads = {1, 0, 2, 2}}, true},
        Case{1, 8, 8, 33, {.window = 5, .stride = 1}},      // padding on both sides; 25 windows contain a pixel
        Case{2, 9, 11, 8, {.window = 2, .stride = 3}},      // some pixels belong to no window
        Case{1, 16, 17, 2, {.window = 16, .stride = 5}}));  // the largest position in a window is 255

TEST(MaxPoolKernels, NeedNoPositionsWhereNobodyTrains) {
  const Case c{2, 5, 7, 6, {.window = 3, .stride = 2}};
  const std::vector<float> x = random_values(static_cast<std::size_t>(c.input().element_count()), 1);
  const Found<float> expected = cpu_max_pool(c, x);
  std::vector<float> y = filled<float>(expected.y.size());
  const MaxPoolForward<float, 2, 0> forward{
      packed_pool(c.geometry(), 6, 2), false, nullptr, x.data(), y.data(), nullptr};
  emulate(ForEachElement{forward, static_cast<std::int64_t>(y.size() / 2)});
  EXPECT_EQ(y, expected.y);
}

}  // namespace
}  // namespace carillon::testing
