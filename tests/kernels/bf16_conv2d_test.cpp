// Tests conv2d in bf16 with every instruction set that this processor has. The results are compared with float64 sums
// of operands that are rounded to bf16. The bits of the results must not depend on the number of threads. All
// instruction sets except avx512_bf16 must have results with the same bits.
#include "kernels/conv2d/bf16_conv2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/device/device.h"
#include "tests/kernels/bf16_conv2d_cases.h"
#include "tests/support/float_arrays.h"
#include "tests/support/isa_name.h"
#include "tests/support/naive_conv2d.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// Expects each value of `found` to equal the expected value rounded to bf16 (8 bits). Before the rounding, a sum may
/// differ from the expected value by 10 * `bf16_sum_error` times the largest expected value.
void expect_rounded(std::span<const float> found, std::span<const double> expected, const char* name) {
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], std::abs(expected[i]) * 0x1p-8 + 10.0 * bf16_sum_error * largest)
        << name << " " << i;
  }
}

/// A graph with one conv2d in bf16, and a device for it.
class Convolution {
 public:
  Convolution(const Conv2dCase& c, Isa isa)
      : device_(c.threads, {.isa = isa}), harness_(c.batch, device_, Arithmetic::bf16) {
    const Value x = harness_.input("x", {c.batch, c.height, c.width, c.in});
    harness_.finish(relu_if(c.relu, harness_.graph(), conv2d(harness_.graph(), "conv", x, c.params)));
  }
  OpHarness* operator->() { return &harness_; }

 private:
  CpuDevice device_;
  OpHarness harness_;
};

struct Results {
  std::vector<float> y, dx, dw;
  bool operator==(const Results&) const = default;
};

Results results_of(Convolution& convolution) {
  const auto y = convolution->forward();
  Results results{.y = {y.begin(), y.end()}, .dx = {}, .dw = {}};
  convolution->backward();
  const auto dx = convolution->gradient("x"), dw = convolution->gradient("conv/weights");
  results.dx = {dx.begin(), dx.end()};
  results.dw = {dw.begin(), dw.end()};
  return results;
}

void expect_definition(const Conv2dCase& c, Isa isa) {
  SCOPED_TRACE(::testing::PrintToString(c) + isa_name(isa));
  Convolution convolution(c, isa);
  const Results results = results_of(convolution);
  const NaiveConv2d naive(c);
  const auto x = rounded_to_bf16<float>(convolution->values("x")),
             weights = rounded_to_bf16<float>(convolution->values("conv/weights"));
  const std::span<const float> biases = c.params.biases ? convolution->values("conv/biases") : std::span<float>{};
  std::vector<double> y = naive.forward(x, weights, biases);
  if (c.relu) std::ranges::transform(y, y.begin(), [](double value) { return std::max(value, 0.0); });
  expect_rounded(results.y, y, "y");
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  std::vector<double> dz(dy.begin(), dy.end());
  for (std::size_t i = 0; i < dz.size() && c.relu; ++i) {
    if (!(results.y[i] > 0.0f)) dz[i] = 0.0;
  }
  const Conv2dGradients gradients = naive.backward(x, weights, rounded_to_bf16<double>(dz));
  expect_rounded(results.dx, gradients.x, "dx");
  EXPECT_LT(relative_error(results.dw, gradients.weights), bf16_sum_error) << "dW";
}

void expect_definition(const Conv2dCase& c) {
  for (const Isa isa : product_isas()) expect_definition(c, isa);
}

TEST(Bf16Convolution, EqualsTheDefinitionAtEveryExtentKernelAndStride) {
  for (const std::int64_t kernel : {1, 2, 3, 5, 7}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const Padding padding : {Padding::same, Padding::valid}) {
        for (const std::int64_t extent : {1, 2, 4, 7, 9}) {
          if (!padding.is_same() && extent < kernel) continue;
          const auto biases = extent % 2 == 0 ? std::nullopt : std::optional(Initializer{});
          expect_definition(
              {3,
               extent,
               12 - extent + kernel,
               16,
               {.filters = 17, .kernel = kernel, .stride = stride, .padding = padding, .biases = biases}});
        }
      }
    }
  }
}

TEST(Bf16Convolution, EqualsTheDefinitionAtManyChannelCounts) {
  for (const std::int64_t channels : {1, 3, 8, 15, 16, 17, 31, 32, 33, 48, 100, 130}) {
    expect_definition({2, 5, 6, channels, {.filters = 150 - channels, .kernel = 3}, 2, true});
  }
  expect_definition({2, 3, 3, 256, {.filters = 256, .kernel = 3}});  // the weights are larger than the cache
  expect_definition({2, 3, 3, 336, {.filters = 336, .kernel = 3}});  // the weights are divided into unequal parts
  // The op divides the weights gradient into two parts, each with some of the filters.
  expect_definition({2, 2, 2, 64, {.filters = 2600, .kernel = 1}, 2});
  // The op divides the weights gradient into two parts, each with some of the channels.
  expect_definition({2, 2, 2, 528, {.filters = 528, .kernel = 1}, 2});
}

TEST(Bf16Convolution, EqualsTheDefinitionForRectanglesAndPadsOnSomeSides) {
  for (const std::int64_t channels : {3, 16, 40}) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::int64_t stride_width : {1, 2}) {
        const auto expect = [&](std::int64_t height, std::int64_t width, const std::vector<std::int64_t>& pads) {
          expect_definition({5,
                             9,
                             8,
                             channels,
                             {.filters = 17,
                              .kernel = height,
                              .stride = stride,
                              .kernel_width = width,
                              .stride_width = stride_width,
                              .pads = pads},
                             2,
                             true});
        };
        expect(3, 1, {});
        expect(1, 7, {});
        expect(7, 1, {3, 0, 2, 0});
        expect(2, 3, {1, 0, 0, 2});
        expect(3, 3, {0, 0, 1, 1});
      }
    }
  }
}

TEST(Bf16Convolution, EqualsTheDefinitionForGroupsAndDilation) {
  for (const Conv2dParams& params :
       std::vector<Conv2dParams>{{.filters = 24, .kernel = 3, .groups = 2},
                                 {.filters = 24, .kernel = 3, .stride = 2, .biases = std::nullopt, .groups = 4},
                                 {.filters = 24, .kernel = 3, .groups = 12},
                                 {.filters = 16, .kernel = 3, .dilation = 2},
                                 {.filters = 16, .kernel = 1, .pads = {1, 1, 1, 1}}}) {
    for (const int threads : {1, 3}) expect_definition({5, 9, 8, 12, params, threads, true});
  }
}

/// The backward pass writes the gradient of x to the memory that holds the float32 copy of x. So each backward pass
/// must first make the copy again.
TEST(Bf16Convolution, OfGroupsReadsItsInputAgainInBackward) {
  Convolution convolution({2, 6, 6, 4, {.filters = 4, .kernel = 3, .groups = 2}}, Isa::plain);
  const std::vector<float> expected = results_of(convolution).dw;
  convolution->backward();
  const auto again = convolution->gradient("conv/weights");
  EXPECT_TRUE(equal_bits(std::vector<float>(again.begin(), again.end()), expected));
}

TEST(Bf16Convolution, OfGroupsDoesNotAddItsDataGradient) {
  CpuDevice device(1);
  OpHarness harness(2, device, Arithmetic::bf16);
  Graph& graph = harness.graph();
  const Value x = harness.input("x", {2, 6, 6, 4});
  const Conv2dParams params{.filters = 4, .kernel = 3, .groups = 2};
  harness.finish(add(graph, "sum", conv2d(graph, "a", x, params), conv2d(graph, "b", x, params)));
  harness.expect_gradients_match_differences(0.25, 0.05);
}

/// If images have few channels, the op treats the columns of one filter row as additional channels.
TEST(Bf16Convolution, EqualsTheDefinitionForImagesOfFewChannels) {
  for (const std::int64_t kernel : {1, 2, 3, 5, 7}) {
    for (const std::int64_t stride : {1, 2, 3, 4}) {
      for (const Padding padding : {Padding::same, Padding::valid, Padding::symmetric(kernel / 2)}) {
        expect_definition({3, 9, 8, 3, {.filters = 20, .kernel = kernel, .stride = stride, .padding = padding}, 2});
      }
    }
  }
  for (const std::int64_t kernel : {3, 5}) expect_definition({32, 6, 5, 3, {.filters = 20, .kernel = kernel}, 2});
}

/// The op divides small images into groups of 16 images that share the weights. It divides large images into strips of
/// rows.
TEST(Bf16Convolution, EqualsTheDefinitionAtManyBatchSizesAndLargeImages) {
  for (const std::int64_t batch : {1, 15, 16, 17, 48, 113}) {
    for (const std::int64_t extent : {1, 3, 6})
      expect_definition({batch, extent, extent, 16, {.filters = extent == 3 ? 40 : 16, .kernel = 3}, 3});
  }
  expect_definition({80, 3, 3, 16, {.filters = 40, .kernel = 3}, 3});  // the last product has fewer groups of 16 images
  expect_definition({17, 33, 40, 64, {.filters = 16, .kernel = 3}, 2});
  expect_definition({17, 33, 40, 64, {.filters = 16, .kernel = 3, .stride = 2, .padding = Padding::symmetric(1)}, 2});
}

/// If the batch has one group or three groups of 16 images, the op sums the weights gradient over the upper and the
/// lower half of the images' rows at the same time. Each half of a large image consists of strips of rows; the last
/// strip is shorter than the other strips.
TEST(Bf16Convolution, EqualsTheDefinitionWhereHalvesOfTheRowsAreSummedAtOnce) {
  for (const std::int64_t batch : {5, 40}) {
    for (const std::int64_t height : {1, 2, 3, 8, 9}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        expect_definition({batch, height, 5, 16, {.filters = 20, .kernel = 3, .stride = stride}, 2});
      }
    }
  }
  expect_definition({5, 33, 70, 64, {.filters = 16, .kernel = 3}, 2});
  expect_definition({5, 65, 40, 64, {.filters = 16, .kernel = 3, .stride = 2, .padding = Padding::symmetric(1)}, 2});
  expect_definition({5, 33, 70, 64, {.filters = 80, .kernel = 1, .stride = 2}, 2});
}

TEST(Bf16Convolution, HasEqualBitsOnEveryInstructionSetExceptAvx512Bf16) {
  for (const Conv2dCase& c : {Conv2dCase{17, 7, 9, 40, {.filters = 24, .kernel = 3}, 1, true},
                              Conv2dCase{17, 4, 3, 33, {.filters = 17, .kernel = 5, .stride = 2}}}) {
    Convolution convolution(c, Isa::plain);
    const Results expected = results_of(convolution);
    for (const Isa isa : available_isas()) {
      if (isa == Isa::avx512_bf16) continue;  // avx512_bf16 adds in another order
      Convolution other(c, isa);
      EXPECT_EQ(results_of(other), expected) << isa_name(isa);
    }
  }
}

TEST(Bf16Convolution, HasEqualBitsAtAnyNumberOfThreads) {
  for (Conv2dCase c :
       {Conv2dCase{37, 11, 9, 40, {.filters = 56, .kernel = 3}}, Conv2dCase{50, 4, 3, 40, {.filters = 24, .kernel = 3}},
        Conv2dCase{20, 30, 31, 64, {.filters = 16, .kernel = 3, .stride = 2}}}) {
    for (const Isa isa : product_isas()) {
      c.threads = 1;
      Convolution one(c, isa);
      const Results expected = results_of(one);
      for (const int threads : {2, 3, 7}) {
        c.threads = threads;
        Convolution other(c, isa);
        EXPECT_EQ(results_of(other), expected) << ::testing::PrintToString(c) << isa_name(isa);
      }
    }
  }
}

/// With 16 images, each thread writes 4 MiB of results, and the op uses non-temporal stores. With 15 images, each
/// thread writes less than 4 MiB, and the op uses normal stores.
TEST(Bf16Convolution, ASampleHasEqualBitsWithNonTemporalStores) {
  for (const Isa isa : product_isas()) {
    const auto of_batch = [&](std::int64_t batch) {
      Convolution convolution({batch, 64, 64, 64, {.filters = 64, .kernel = 1}, 2}, isa);
      Results results = results_of(convolution);
      results.y.resize(15 * 64 * 64 * 64);
      results.dx.resize(15 * 64 * 64 * 64);
      return results;
    };
    const Results large = of_batch(16), small = of_batch(15);
    EXPECT_TRUE(equal_bits(large.y, small.y)) << isa_name(isa);
    EXPECT_TRUE(equal_bits(large.dx, small.dx)) << isa_name(isa);
  }
}

/// With up to 16 images, one product covers several pixels of a row. The product includes filter taps that are inside
/// of the image for some of these pixels only.
TEST(Bf16Convolution, ASampleHasEqualBitsInAnyBatch) {
  for (const Isa isa : product_isas()) {
    std::vector<float> expected;
    for (const std::int64_t batch : {16, 17, 32}) {
      Convolution convolution({batch, 4, 4, 257, {.filters = 100, .kernel = 3}}, isa);
      const std::vector<float> y = results_of(convolution).y, samples(y.begin(), y.begin() + 16 * 4 * 4 * 100);
      if (expected.empty()) expected = samples;
      EXPECT_TRUE(equal_bits(samples, expected)) << batch << " images, " << isa_name(isa);
    }
  }
}

TEST(Bf16Convolution, PassesOnNanAndInfinity) {
  const Conv2dCase c{2, 5, 5, 16, {.filters = 16, .kernel = 3, .biases = std::nullopt}, 1, false};
  for (const float special : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Convolution convolution(c, available_isas().back());
    convolution->values("x")[0] = special;
    const auto y = convolution->forward();
    EXPECT_FALSE(std::isfinite(y[0]));
    EXPECT_TRUE(std::isfinite(y[4 * 16])) << "out of reach of the special value";
    convolution->backward();
    EXPECT_FALSE(std::isfinite(convolution->gradient("conv/weights")[4 * 256]));
  }
}

}  // namespace
}  // namespace carillon::testing
