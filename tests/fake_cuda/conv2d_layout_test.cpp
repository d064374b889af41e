#include <gtest/gtest.h>

#include <vector>

#include "kernels/conv2d/conv2d_plan_cuda.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch, height, width, in;
  Conv2dParams params;
};

using Index = std::array<std::int64_t, 4>;

std::size_t place(const StridedTensor& tensor, const Index& index) {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    EXPECT_LT(index[axis], tensor.extents[axis]);
    place += index[axis] * tensor.strides[axis];
  }
  return static_cast<std::size_t>(place);
}

/// Calls visit(index in x, index in the weights, index in y) for every product of the convolution. As cuDNN does,
/// derives the indices from the extents, the stride, the dilation and the padding before the image. The number of
/// groups is the channel count of x divided by the channel count of the weights.
template <typename Visit>
void for_each_product(const Conv2dLayout& layout, const Visit& visit) {
  const auto& [batch, filters, rows, columns] = layout.y.extents;
  const auto& [_, channels, window_rows, window_columns] = layout.weights.extents;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t k = 0; k < filters; ++k) {
      for (std::int64_t p = 0; p < rows; ++p) {
        for (std::int64_t q = 0; q < columns; ++q) {
          for (std::int64_t i = 0; i < window_rows; ++i) {
            for (std::int64_t j = 0; j < window_columns; ++j) {
              const std::int64_t h = p * layout.stride[0] + i * layout.dilation[0] - layout.padding_before[0];
              const std::int64_t w = q * layout.stride[1] + j * layout.dilation[1] - layout.padding_before[1];
              if (h < 0 || h >= layout.x.extents[2] || w < 0 || w >= layout.x.extents[3]) continue;
              const std::int64_t group = k / (filters * channels / layout.x.extents[1]);
              for (std::int64_t c = 0; c < channels; ++c)
                visit(Index{n, group * channels + c, h, w}, Index{k, c, i, j}, Index{n, k, p, q});
            }
          }
        }
      }
    }
  }
}

/// Returns the transpose, [columns, rows], of the matrix `from`, [rows, columns].
std::vector<float> transpose(std::span<const float> from, std::size_t rows) {
  const std::size_t columns = from.size() / rows;
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i % columns * rows + i / columns] = from[i];
  return to;
}

void expect_near(std::span<const float> found, std::span<const float> expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-4f) << what << " " << i;
}

class Conv2dCudaLayout : public ::testing::TestWithParam<Case> {
 protected:
  Conv2dCudaLayout() : harness_(GetParam().batch) {
    const Case& c = GetParam();
    const Value x = harness_.input("x", {c.batch, c.height, c.width, c.in});
    const Value y = conv2d(harness_.graph(), "conv", x, c.params);
    const ImageWindows windows = c.params.windows({c.batch, c.height, c.width, c.in});
    const Conv2dGeometry geometry{
        .vertical = windows.vertical, .horizontal = windows.horizontal, .groups = c.params.groups};
    const auto& weights = harness_.graph().parameters()[1].shape;
    layout_ = conv2d_layout(geometry, harness_.graph().shape(x), weights, harness_.graph().shape(y));
    filters_ = static_cast<std::size_t>(c.params.filters);
    harness_.finish(y);
  }
  OpHarness harness_;
  Conv2dLayout layout_;
  std::size_t filters_;
};

TEST_P(Conv2dCudaLayout, DescribesTheConvolutionThatTheOpIs) {
  const auto x = harness_.values("x"), biases = harness_.values("conv/biases");
  const auto hwio = harness_.values("conv/weights");
  const auto weights = transpose(hwio, hwio.size() / filters_);
  const auto y = harness_.forward();
  std::vector<float> found(y.size());
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = biases[i % filters_];
  for_each_product(layout_, [&](const Index& xi, const Index& wi, const Index& yi) {
    found[place(layout_.y, yi)] += x[place(layout_.x, xi)] * weights[place(layout_.weights, wi)];
  });
  expect_near(found, y, "y");
}

TEST_P(Conv2dCudaLayout, DescribesItsGradients) {
  const auto x = harness_.values("x"), hwio = harness_.values("conv/weights");
  const auto weights = transpose(hwio, hwio.size() / filters_);
  const auto dy = OpHarness::output_gradient(harness_.forward().size());
  harness_.backward();
  std::vector<float> dx(x.size()), dw(weights.size());
  for_each_product(layout_, [&](const Index& xi, const Index& wi, const Index& yi) {
    dx[place(layout_.x, xi)] += dy[place(layout_.y, yi)] * weights[place(layout_.weights, wi)];
    dw[place(layout_.weights, wi)] += dy[place(layout_.y, yi)] * x[place(layout_.x, xi)];
  });
  expect_near(dx, harness_.gradient("x"), "dx");
  expect_near(transpose(dw, filters_), harness_.gradient("conv/weights"), "dW");
}

/// cuDNN computes the extents of y from the extents of x and of the weights and from the padding on both sides.
TEST_P(Conv2dCudaLayout, PaddingOnBothSidesGivesTheOutputsExtents) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t padded =
        layout_.x.extents[axis + 2] + layout_.padding_before[axis] + layout_.padding_after[axis];
    const std::int64_t span = (layout_.weights.extents[axis + 2] - 1) * layout_.dilation[axis] + 1;
    EXPECT_EQ((padded - span) / layout_.stride[axis] + 1, layout_.y.extents[axis + 2]);
  }
  EXPECT_EQ(layout_.biases.extents, (Index{1, layout_.y.extents[1], 1, 1}));
  EXPECT_EQ(layout_.biases.strides[1], 1);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Conv2dCudaLayout,
    ::testing::Values(Case{1, 1, 1, 1, {.filters = 1, .kernel = 1}}, Case{1, 1, 1, 2, {.filters = 3, .kernel = 5}},
                      Case{2, 3, 4, 3, {.filters = 7, .kernel = 5}},
                      Case{2, 6, 7, 5, {.filters = 4, .kernel = 4}},  // even size: more padding after than before
                      Case{2, 9, 8, 3, {.filters = 8, .kernel = 3, .stride = 2}},
                      Case{1, 6, 5, 2, {.filters = 2, .kernel = 1, .stride = 2}},
                      Case{2, 7, 6, 2, {.filters = 3, .kernel = 5, .padding = Padding::valid}},
                      Case{2, 7, 6, 4, {.filters = 6, .kernel = 3, .groups = 2}},
                      Case{2, 7, 6, 4, {.filters = 8, .kernel = 3, .groups = 4, .dilation = 2}},
                      Case{2, 7, 9, 2, {.filters = 3, .kernel = 3, .kernel_width = 1, .stride_width = 2}},
                      Case{2, 7, 9, 2, {.filters = 3, .kernel = 3, .stride = 2, .pads = {0, 0, 1, 1}}}));

}  // namespace
}  // namespace carillon::testing
