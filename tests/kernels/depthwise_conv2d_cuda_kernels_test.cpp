// Runs the CUDA kernels of depthwise_conv2d on the CPU, by loops over blocks and threads (`emulate`), and compares the
// results with NaiveDepthwiseConv2d, in double.
#include <gtest/gtest.h>

#include "kernels/depthwise_conv2d/depthwise_conv2d_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/naive_depthwise_conv2d.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

using Case = DepthwiseCase;

template <typename T>
struct Found {
  std::vector<T> y, dx;
  std::vector<float> dweights;
};

class DepthwiseKernels : public ::testing::TestWithParam<Case> {
 protected:
  DepthwiseGeometry geometry_ = GetParam().geometry();
  std::int64_t batch_ = GetParam().shape[0], channels_ = GetParam().shape[3];
  std::int64_t lines_ = batch_ * geometry_.vertical.output;
  std::size_t x_size_ = static_cast<std::size_t>(GetParam().shape.element_count());
  std::size_t y_size_ = static_cast<std::size_t>(lines_ * geometry_.horizontal.output * channels_);
  std::size_t w_size_ = static_cast<std::size_t>(geometry_.vertical.window * geometry_.horizontal.window * channels_);
  std::vector<float> weights_ = random_values(w_size_, 1);
  std::vector<float> biases_ = random_values(static_cast<std::size_t>(channels_), 2);
  std::vector<float> given_dx_;  ///< if geometry_.accumulates_dx: the old content of dx, to which the kernels add

  template <typename T, int n, int taps, int stride>
  Found<T> emulate_form(const std::vector<T>& x, const std::vector<T>& dy, ThreadOrder order) {
    Found<T> found{filled<T>(y_size_), filled<T>(x_size_), filled<float>(w_size_)};
    if (geometry_.accumulates_dx) found.dx = rounded<T>(given_dx_);
    const PackedPool pool = packed_pool(geometry_, channels_, n);
    emulate(ForEachElement{DepthwiseConvolve<T, n, taps, stride>{pool, x.data(), weights_.data(), biases_.data(),
                                                                 found.y.data()},
                           lines_ * depthwise_column_blocks(pool.horizontal) * pool.packs},
            order);
    if (!geometry_.has_strides()) {
      const DepthwiseGeometry turned{turned_axis(geometry_.vertical), turned_axis(geometry_.horizontal)};
      const PackedPool back = packed_pool(turned, channels_, n);
      emulate(ForEachElement{DepthwiseConvolve<T, n, taps, stride>{back, dy.data(), weights_.data(), nullptr,
                                                                   found.dx.data(), true, geometry_.accumulates_dx},
                             batch_ * back.vertical.output * depthwise_column_blocks(back.horizontal) * back.packs},
              order);
    } else {
      emulate(ForEachElement{DepthwiseInputGradient<T, n>{pool, dy.data(), weights_.data(), found.dx.data()},
                             static_cast<std::int64_t>(x_size_) / n},
              order);
    }
    const DepthwiseCut cut = depthwise_cut(pool, batch_, taps);
    std::vector<float> sums = filled<float>(w_size_ * static_cast<std::size_t>(cut.item_blocks()));
    emulate(DepthwiseFilterGradient<T, n, taps, stride>{pool, cut, x.data(), dy.data(), sums.data()}, order);
    emulate(ForEachElement{SumBlocks{sums.data(), cut.item_blocks(), std::ssize(weights_), found.dweights.data()},
                           std::ssize(weights_)},
            order);
    return found;
  }

  template <typename T>
  Found<T> emulate_all(const std::vector<T>& x, const std::vector<T>& dy, ThreadOrder order) {
    Found<T> found;
    with_depthwise_form(
        geometry_.horizontal, channels_,
        [&]<int n, int taps, int stride>(std::integral_constant<int, n>, std::integral_constant<int, taps>,
                                         std::integral_constant<int, stride>) {
          found = emulate_form<T, n, taps, stride>(x, dy, order);
        });
    return found;
  }

  template <typename T>
  void expect_definition(double tolerance) {
    const std::vector<T> x = rounded<T>(random_values(x_size_, 3)), dy = rounded<T>(random_values(y_size_, 4));
    const NaiveDepthwiseConv2d expected(GetParam(), floats(x), weights_, biases_, floats(dy));
    for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
      const Found<T> found = emulate_all(x, dy, order);
      EXPECT_LT(relative_error(floats(found.y), expected.y), tolerance);
      EXPECT_LT(relative_error(floats(found.dx), expected.dx), tolerance);
      EXPECT_LT(relative_error(found.dweights, expected.dweights), 5e-6);
    }
  }
};

TEST_P(DepthwiseKernels, EqualTheDefinitionInFloat32) { expect_definition<float>(1e-6); }
TEST_P(DepthwiseKernels, EqualTheDefinitionInBf16) { expect_definition<Bf16>(4e-3); }

TEST_P(DepthwiseKernels, AddTheirGradientToThatOfOtherReaders) {
  if (geometry_.has_strides()) return;  // if the stride is above 1, the kernels never add to dx
  const std::vector<float> dy = random_values(y_size_, 4), before = random_values(x_size_, 5);
  std::vector<float> expected = emulate_all(before, dy, ThreadOrder::ascending).dx;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  geometry_.accumulates_dx = true;
  given_dx_ = before;
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    EXPECT_TRUE(equal_bits(emulate_all(before, dy, order).dx, expected));
  }
}

TEST_P(DepthwiseKernels, SumInAFixedOrder) {
  const std::vector<float> x = random_values(x_size_, 3), dy = random_values(y_size_, 4);
  const Found<float> one = emulate_all(x, dy, ThreadOrder::ascending);
  const Found<float> other = emulate_all(x, dy, ThreadOrder::descending);
  EXPECT_TRUE(equal_bits(one.dweights, other.dweights));
}

INSTANTIATE_TEST_SUITE_P(Shapes, DepthwiseKernels,
                         ::testing::Values(Case{{2, 7, 7, 36}, {.kernel = 7}}, Case{{3, 14, 13, 8}, {.kernel = 7}},
                                           Case{{2, 3, 2, 5}, {.kernel = 7}}, Case{{40, 9, 9, 4}, {.kernel = 3}},
                                           Case{{2, 9, 10, 7}, {.kernel = 7, .stride = 2}},
                                           Case{{2, 12, 9, 40}, {.kernel = 3, .stride = 2}},
                                           Case{{2, 11, 10, 3}, {.kernel = 3, .stride = 3, .padding = Padding::valid}},
                                           Case{{2, 9, 8, 4}, {.kernel = 5, .padding = Padding::symmetric(4)}},
                                           Case{{2, 6, 5, 2}, {.kernel = 1, .stride = 3}},
                                           Case{{2, 8, 7, 12}, {.kernel = 2}},
                                           Case{{2, 9, 8, 8}, {.kernel = 3, .kernel_width = 1}},
                                           Case{{2, 9, 8, 5}, {.kernel = 1, .kernel_width = 7}},
                                           Case{{2, 9, 8, 4}, {.kernel = 3, .pads = {0, 0, 1, 1}}},
                                           Case{{2, 9, 8, 4}, {.kernel = 3, .stride = 2, .stride_width = 1}},
                                           Case{{2, 9, 8, 4}, {.kernel = 3, .stride = 1, .stride_width = 2}}));

}  // namespace
}  // namespace carillon::testing
