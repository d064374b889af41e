// Tests conv2d by Winograd's method with every instruction set that this processor has. The results are compared with
// float64, including edges and remainders. The bits must not depend on the number of threads.
#include "kernels/conv2d/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/device/device.h"
#include "tests/support/float_arrays.h"
#include "tests/support/isa_name.h"
#include "tests/support/naive_conv2d.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// A graph with one conv2d, and a device for it.
class Convolution {
 public:
  Convolution(const Conv2dCase& c, Isa isa)
      : device_(c.threads, {.isa = isa, .convolution = ConvolutionMethod::winograd}), harness_(c.batch, device_) {
    const Value x = harness_.input("x", {c.batch, c.height, c.width, c.in});
    harness_.finish(relu_if(c.relu, harness_.graph(), conv2d(harness_.graph(), "conv", x, c.params)));
  }
  OpHarness& operator*() { return harness_; }
  OpHarness* operator->() { return &harness_; }

 private:
  CpuDevice device_;
  OpHarness harness_;
};

constexpr double forward_bound = 1e-5, backward_bound = 3e-5;

/// Computes the results of a case in float64. One object is used for all instruction sets, so it computes most results
/// only once.
class Expected {
 public:
  explicit Expected(const Conv2dCase& c) : case_(c), naive_(c) {}

  const std::vector<double>& y(Convolution& convolution) {
    if (y_.empty()) {
      y_ = naive_.forward(convolution->values("x"), convolution->values("conv/weights"), biases(convolution));
      if (case_.relu) std::ranges::transform(y_, y_.begin(), [](double y) { return std::max(y, 0.0); });
    }
    return y_;
  }

  /// Returns the gradients. `y`: the output of `convolution`. If there is a ReLU, the gradient passes only where y is
  /// positive.
  const Conv2dGradients& gradients(Convolution& convolution, std::span<const float> y) {
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    std::vector<double> dz(dy.begin(), dy.end());
    for (std::size_t i = 0; i < dz.size() && case_.relu; ++i) {
      if (!(y[i] > 0.0f)) dz[i] = 0.0;
    }
    if (dz != dz_) {  // with another instruction set, a y near 0 may have another sign
      gradients_ = naive_.backward(convolution->values("x"), convolution->values("conv/weights"), dz);
      dz_ = std::move(dz);
    }
    return gradients_;
  }

 private:
  std::span<const float> biases(Convolution& convolution) const {
    return case_.params.biases ? convolution->values("conv/biases") : std::span<float>{};
  }

  Conv2dCase case_;
  NaiveConv2d naive_;
  std::vector<double> y_, dz_;
  Conv2dGradients gradients_;
};

void expect_definition(const Conv2dCase& c) {
  Expected expected(c);
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(::testing::PrintToString(c) + " " + isa_name(isa));
    Convolution convolution(c, isa);
    const auto y = convolution->forward();
    EXPECT_LT(relative_error(y, expected.y(convolution)), forward_bound) << "y";
    convolution->backward();
    const Conv2dGradients& gradients = expected.gradients(convolution, y);
    EXPECT_LT(relative_error(convolution->gradient("x"), gradients.x), backward_bound) << "dx";
    EXPECT_LT(relative_error(convolution->gradient("conv/weights"), gradients.weights), backward_bound) << "dW";
  }
}

class Winograd : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, Winograd, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return isa_name(isa.param); });

TEST(WinogradConvolution, EqualsTheDefinitionAtEveryExtent) {
  for (const std::int64_t kernel : {3, 5}) {
    for (const Padding padding : {Padding::same, Padding::valid, Padding::symmetric(2)}) {
      const std::int64_t least = padding.is_same() ? 1 : std::max<std::int64_t>(kernel - 2 * padding.extent(), 1);
      for (std::int64_t extent = least; extent <= 13; ++extent) {
        for (const std::int64_t channels : {3, 5}) {  // the op treats 3 channels as few channels, and 5 channels as
                                                      // many
          const auto biases = extent % 3 == 0 ? std::nullopt : std::optional(Initializer{});
          const Conv2dCase c{2,
                             extent,
                             14 - extent + kernel,
                             channels,
                             {.filters = 6, .kernel = kernel, .padding = padding, .biases = biases}};
          expect_definition(c);
        }
      }
    }
  }
}

TEST(WinogradConvolution, EqualsTheDefinitionForPadsOnSomeSides) {
  for (const std::int64_t kernel : {3, 5}) {
    for (const std::int64_t channels : {3, 5}) {
      for (const std::vector<std::int64_t>& pads : {std::vector<std::int64_t>{0, 0, 1, 1}, {2, 1, 0, 2}}) {
        expect_definition({2, 9, 8, channels, {.filters = 6, .kernel = kernel, .pads = pads}, 2, true});
      }
    }
  }
}

TEST(WinogradConvolution, EqualsTheDefinitionAtEveryChannelCount) {
  for (std::int64_t channels = 1; channels <= 67; ++channels) {
    const Conv2dCase c{1, 5, 6, channels, {.filters = 68 - channels, .kernel = channels % 2 == 0 ? 3 : 5}, 2, true};
    expect_definition(c);
  }
}

TEST(WinogradConvolution, EqualsTheDefinitionForImagesOfFewChannels) {
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    for (const std::int64_t kernel : {3, 5}) {
      for (const std::int64_t batch :
           {1, 3, 60}) {  // 35 tiles per image: one chunk or several; blocks of one chunk or several
        const Conv2dCase c{batch, 18, 27, channels, {.filters = 19, .kernel = kernel}, 2, true};
        expect_definition(c);
      }
    }
  }
  expect_definition({126, 26, 23, 3, {.filters = 33, .kernel = 5}, 2});  // one block has more than one chunk
}

TEST(WinogradConvolution, EqualsTheDefinitionAtManyBatchSizes) {
  for (const std::int64_t batch : {1, 2, 3, 11, 12, 13, 23, 64, 97, 128, 130}) {
    const Conv2dCase c{batch, 9, 7, 17, {.filters = 20, .kernel = batch % 2 == 0 ? 3 : 5}, 2, true};
    expect_definition(c);
  }
}

TEST(WinogradConvolution, StaysWithinItsErrorForWideLayers) {
  for (const Conv2dCase& c : {Conv2dCase{8, 12, 12, 64, {.filters = 64, .kernel = 5}, 2, true},
                              Conv2dCase{8, 15, 15, 64, {.filters = 64, .kernel = 3}, 2, true},
                              Conv2dCase{4, 7, 7, 256, {.filters = 256, .kernel = 3}, 2},
                              Conv2dCase{1, 8, 8, 300, {.filters = 130, .kernel = 5}, 2},
                              Conv2dCase{1, 8, 8, 512, {.filters = 512, .kernel = 3}, 2}}) {
    expect_definition(c);
  }
}

/// Returns y, dx and the weights gradient, concatenated.
std::vector<float> all_results(const Conv2dCase& c, Isa isa) {
  Convolution convolution(c, isa);
  const auto y = convolution->forward();
  std::vector<float> results(y.begin(), y.end());
  convolution->backward();
  for (const char* name : {"x", "conv/weights"}) {
    const auto gradient = convolution->gradient(name);
    results.insert(results.end(), gradient.begin(), gradient.end());
  }
  return results;
}

TEST_P(Winograd, ReturnsEqualBitsForAnyNumberOfThreads) {
  for (const Conv2dCase& c : {Conv2dCase{1, 3, 3, 2, {.filters = 3, .kernel = 3}},  // has fewer tiles than threads
                              Conv2dCase{70, 13, 11, 20, {.filters = 40, .kernel = 5}},
                              Conv2dCase{33, 15, 15, 64, {.filters = 70, .kernel = 3}},
                              Conv2dCase{70, 26, 23, 3, {.filters = 40, .kernel = 5}}}) {
    const std::vector<float> expected = all_results(c, GetParam());
    for (const int threads : {2, 3, 5, 70}) {
      Conv2dCase with_threads = c;
      with_threads.threads = threads;
      EXPECT_EQ(all_results(with_threads, GetParam()), expected) << ::testing::PrintToString(with_threads);
    }
  }
}

TEST_P(Winograd, LetsNotANumberThroughItsRelu) {
  Convolution convolution({1, 4, 4, 3, {.filters = 2, .kernel = 3}, 1, true}, GetParam());
  convolution->values("x")[0] = NAN;
  EXPECT_TRUE(std::isnan(convolution->forward()[0]));
}

TEST(WinogradMethod, IsForFiltersOfThreeOrFiveAndStrideOne) {
  const auto can = [](std::int64_t kernel, std::int64_t stride) {
    const SlidingWindow window = slide(9, kernel, stride, Padding::same);
    return winograd_can({.vertical = window, .horizontal = window});
  };
  EXPECT_TRUE(can(3, 1));
  EXPECT_TRUE(can(5, 1));
  EXPECT_FALSE(can(1, 1));
  EXPECT_FALSE(can(4, 1));
  EXPECT_FALSE(can(7, 1));
  EXPECT_FALSE(can(3, 2));
  const SlidingWindow window = slide(9, 3, 1, Padding::same), dilated = slide(9, 3, 1, Padding::same, 2);
  EXPECT_FALSE(winograd_can({.vertical = window, .horizontal = window, .groups = 2}));
  EXPECT_FALSE(winograd_can({.vertical = dilated, .horizontal = dilated}));
  EXPECT_FALSE(winograd_can({.vertical = window, .horizontal = slide(9, 5, 1, Padding::same)}));
  EXPECT_FALSE(winograd_can({.vertical = window, .horizontal = slide_padded(9, 3, 1, 0, 3)}));
  EXPECT_TRUE(winograd_can({.vertical = window, .horizontal = slide_padded(9, 3, 1, 0, 1)}));
}

std::vector<float> outputs(const Conv2dCase& c, ConvolutionMethod method) {
  CpuDevice device(1, {.convolution = method});
  OpHarness harness(c.batch, device);
  harness.finish(conv2d(harness.graph(), "conv", harness.input("x", {c.batch, c.height, c.width, c.in}), c.params));
  const auto y = harness.forward();
  return {y.begin(), y.end()};
}

TEST(WinogradMethod, IsTakenWhereItPaysAndWhereItIsAskedFor) {
  using enum ConvolutionMethod;
  const Conv2dCase pays{2, 12, 12, 64, {.filters = 64, .kernel = 5}};
  EXPECT_EQ(outputs(pays, automatic), outputs(pays, winograd));
  EXPECT_NE(outputs(pays, automatic), outputs(pays, direct));
  const Conv2dCase does_not{2, 12, 12, 1, {.filters = 64, .kernel = 5}};
  EXPECT_EQ(outputs(does_not, automatic), outputs(does_not, direct));
  EXPECT_NE(outputs(does_not, winograd), outputs(does_not, direct));
  const Conv2dCase cannot{2, 12, 12, 64, {.filters = 64, .kernel = 5, .stride = 2}};
  EXPECT_EQ(outputs(cannot, winograd), outputs(cannot, direct));
}

TEST(WinogradMethod, IsNamedByTheGraphAsTheOpsTakeIt) {
  const auto named = [](std::int64_t extent, ConvolutionMethod method) {
    CpuDevice device(1);
    OpHarness harness(2, device);
    harness.finish(conv2d(harness.graph(), "conv", harness.input("x", {2, extent, extent, 16}),
                          {.filters = 16, .kernel = 5, .padding = Padding::same}));
    return winograd_convolutions(harness.graph(), method) == std::vector<std::string>{"conv"};
  };
  using enum ConvolutionMethod;
  EXPECT_TRUE(named(12, automatic));
  EXPECT_FALSE(named(12, direct));
  EXPECT_FALSE(named(2, automatic)) << "half of a tile unused";
  EXPECT_TRUE(named(2, winograd));
}

TEST(WinogradMethod, IsSelectedByShapesOnly) {
  const auto pays = [](std::int64_t kernel, std::int64_t in, std::int64_t out, std::int64_t extent) {
    return winograd_pays({kernel, kernel, in, out}, {128, extent, extent, out});
  };
  EXPECT_TRUE(pays(5, 64, 64, 12));
  EXPECT_TRUE(pays(3, 512, 512, 4));
  EXPECT_TRUE(pays(5, 3, 64, 24));
  EXPECT_FALSE(pays(5, 1, 32, 28)) << "one channel";
  EXPECT_FALSE(pays(3, 3, 64, 32)) << "a small filter on an image";
  EXPECT_FALSE(pays(5, 6, 16, 10)) << "few channels";
  EXPECT_FALSE(pays(3, 64, 64, 2)) << "half of a tile unused";
}

}  // namespace
}  // namespace carillon::testing
