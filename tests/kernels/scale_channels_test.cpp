#include "kernels/scale_channels/scale_channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/scale_channels/scale_channels_kernels.h"
#include "src/graph/batch_tiling.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape shape;
  int threads = 1;
};

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Returns the sum of dy * x for each channel, added in double.
std::vector<float> factor_gradient(std::span<const float> x, std::span<const float> dy, std::size_t channels) {
  std::vector<double> sums(channels);
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % channels] += static_cast<double>(dy[i]) * x[i];
  return {sums.begin(), sums.end()};
}

class ScaleChannels : public ::testing::TestWithParam<Case> {
 protected:
  ScaleChannels() : harness_(GetParam().shape[0], GetParam().threads) {
    harness_.finish(scale_channels(harness_.graph(), "op", harness_.input("x", GetParam().shape)));
  }
  OpHarness harness_;
};

TEST_P(ScaleChannels, EqualsTheDefinitionForwardAndBackward) {
  const auto x = harness_.values("x"), w = harness_.values("op/gamma");
  const auto y = harness_.forward();
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], x[i] * w[i % w.size()]) << i;
  harness_.backward();
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  const auto dx = harness_.gradient("x");
  for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(dx[i], dy[i] * w[i % w.size()]) << i;
  expect_near(copied(harness_.gradient("op/gamma")), factor_gradient(x, dy, w.size()), 1e-5);
}

TEST_P(ScaleChannels, GradientsMatchFiniteDifferences) { harness_.expect_gradients_match_differences(1e-2, 1e-3, 20); }

INSTANTIATE_TEST_SUITE_P(Sizes, ScaleChannels,
                         ::testing::Values(Case{{1, 1}}, Case{{3, 7}}, Case{{2, 5, 3, 17}, 2}, Case{{9, 5, 3, 33}, 2},
                                           Case{{3, 197, 64}, 2}, Case{{130, 7, 48}, 3}, Case{{2, 3, 1500}}));

TEST(ScaleChannels, DoesNotDependOnTheThreadCount) {
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 2, 3, 7}) {
    OpHarness harness(61, threads);
    harness.finish(scale_channels(harness.graph(), "op", harness.input("x", {61, 7, 9, 33})));
    std::vector<std::vector<float>> found{copied(harness.forward())};
    harness.backward();
    for (const char* name : {"x", "op/gamma"}) found.push_back(copied(harness.gradient(name)));
    if (threads == 1) expected = found;
    EXPECT_EQ(found, expected) << threads;
  }
}

TEST(ScaleChannels, TilesOfTheBatchGiveTheSameBits) {
  std::vector<float> y, dx, dgamma;
  for (const bool is_tiled : {false, true}) {
    OpHarness harness(29, 2);
    Graph& graph = harness.graph();
    const Value x = gelu(graph, "gelu", harness.input("x", {29, 13, 31, 99}));
    const Value z = silu(graph, "silu", scale_channels(graph, "op", x));
    if (!is_tiled) {
      std::vector<Graph::Node> nodes = graph.nodes();
      for (Graph::Node& node : nodes) node.traits.samples_are_independent = false;
      graph.replace_nodes(std::move(nodes));
    }
    harness.finish(z);
    EXPECT_EQ(plan_tiling(graph, 2)[1].tiles > 1, is_tiled);
    const std::vector<float> found = copied(harness.forward());
    harness.backward();
    if (!is_tiled) {
      y = found;
      dx = copied(harness.gradient("x"));
      dgamma = copied(harness.gradient("op/gamma"));
    }
    EXPECT_EQ(found, y);
    EXPECT_EQ(copied(harness.gradient("x")), dx);
    // The gradient of gamma is a sum over samples, and the tiles change the order of its additions.
    expect_near(copied(harness.gradient("op/gamma")), dgamma, 1e-4);
  }
}

TEST(ScaleChannels, HasAGradientIfNobodyWantsThatOfItsInput) {
  const NoiseBatch samples(0, 20, 12);
  OpHarness harness(20);
  harness.step().batch = samples.batch();
  const Value x = image_input(harness.graph(), "x", {.sample = {2, 2, 3}});
  harness.finish(scale_channels(harness.graph(), "op", x));
  const std::size_t count = harness.forward().size();
  harness.backward();
  std::vector<float> pixels;
  for (const std::uint8_t* image : samples.batch().images) pixels.insert(pixels.end(), image, image + 12);
  expect_near(copied(harness.gradient("op/gamma")), factor_gradient(pixels, OpHarness::output_gradient(count), 3),
              1e-5);
}

TEST(ScaleChannels, HasTheGradientOfItsInputIfNobodyWantsThatOfItsVariable) {
  CpuDevice device(1);
  const Shape shape{2, 3, 5};
  std::vector<float> x = random_values(30, 1), dy = random_values(30, 2), gamma = random_values(5, 3), y(30), dx(30);
  const auto op =
      make_scale_channels_cpu({.device = &device, .training = true}, {.inputs = {{x.data(), shape}},
                                                                      .outputs = {{y.data(), shape}},
                                                                      .input_gradients = {{dx.data(), shape}},
                                                                      .output_gradients = {{dy.data(), shape}},
                                                                      .parameters = {{gamma.data(), {5}}},
                                                                      .parameter_gradients = {{}}});
  op->backward(device.stream());
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], dy[i] * gamma[i % 5]) << i;
}

TEST(ScaleChannels, ItsVariableHasItsNameAndValues) {
  Graph graph(4);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {4, 3, 5});
  EXPECT_EQ(graph.shape(scale_channels(graph, "a", x)), (Shape{4, 3, 5}));
  scale_channels(graph, "b", x, {.initial_factor = 0.1f});
  ASSERT_EQ(graph.parameters().size(), 2);
  for (int i = 0; i < 2; ++i) {
    const ParameterSpec& spec = graph.parameters()[i];
    EXPECT_EQ(spec.name, i == 0 ? "a/gamma" : "b/gamma");
    EXPECT_EQ(spec.shape.rank(), 1);  // vectors, such as biases, have no weight decay
    EXPECT_EQ(initial_values(spec, 1), std::vector<float>(5, i == 0 ? 1e-6f : 0.1f));
  }
}

TEST(ScaleChannels, RefusesAnInputWithoutChannels) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2});
  EXPECT_THROW(scale_channels(harness.graph(), "op", x), Error);
}

// Tests of the CUDA kernels, which run on the CPU by loops over blocks and threads (`emulate`)

template <typename T>
struct Found {
  std::vector<T> y, sum, dx;        ///< sum: y, with dy as the addend
  std::vector<float> sums, dgamma;  ///< sums: the sum of dx for each channel
};

/// Runs the kernels in the same order as ScaleChannelsCuda. `given`: dy.
template <typename T>
Found<T> emulate_scale_channels(std::int64_t rows, std::int64_t channels, const std::vector<T>& x,
                                const std::vector<T>& given, const std::vector<float>& gamma, ThreadOrder order) {
  Found<T> found{filled<T>(x.size()), filled<T>(x.size()), filled<T>(x.size()), filled<float>(gamma.size()),
                 filled<float>(gamma.size())};
  std::vector<Pack<float, 8>> factors(gamma.size() / 8 + 1);  // aligned for packs of all sizes
  std::ranges::copy(gamma, factors.front().at);
  with_pack_size<T>(channels, [&]<int n>(std::integral_constant<int, n>) {
    const PackedRows<n> packs{static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(channels / n)};
    const ScaleChannelsRows<T, n> kernel{packs, factors.front().at, x.data(), found.y.data()};
    emulate(ForEachElement{kernel, packs.count()}, order);
    const ScaleChannelsRows<T, n, true> and_add{packs, factors.front().at, x.data(), found.sum.data(), given.data()};
    emulate(ForEachElement{and_add, packs.count()}, order);
    const ColumnCut cut = column_cut(rows, channels, n);
    std::vector<double> sums(2 * static_cast<std::size_t>(cut.row_blocks() * channels), std::nan(""));
    const ColumnParts parts{sums.data(), sums.data() + sums.size() / 2};
    const ScaleChannelsGradients<T, n> terms{factors.front().at, x.data(), given.data(), found.dx.data(),
                                             static_cast<std::uint32_t>(channels)};
    emulate(ColumnSums<n, ScaleChannelsGradients<T, n>>{terms, cut, parts}, order);
    emulate(CombineColumnSums{{}, cut, parts, found.sums.data(), found.dgamma.data()}, order);
  });
  return found;
}

struct Size {
  std::int64_t rows, channels;
};

class ScaleChannelsKernels : public ::testing::TestWithParam<Size> {
 protected:
  template <typename T>
  void expect_the_definition() const {
    const std::size_t channels = static_cast<std::size_t>(GetParam().channels);
    const std::size_t count = static_cast<std::size_t>(GetParam().rows) * channels;
    const std::vector<T> x = rounded<T>(random_values(count, 5)), dy = rounded<T>(random_values(count, 6));
    const std::vector<float> gamma = random_values(channels, 7);
    for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
      const Found<T> found = emulate_scale_channels(GetParam().rows, GetParam().channels, x, dy, gamma, order);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(to_float(found.y[i]), to_float(stored_as<T>(to_float(x[i]) * gamma[i % channels]))) << i;
        ASSERT_EQ(to_float(found.dx[i]), to_float(stored_as<T>(to_float(dy[i]) * gamma[i % channels]))) << i;
        const float sum = to_float(x[i]) * gamma[i % channels] + to_float(dy[i]);
        ASSERT_NEAR(to_float(found.sum[i]), sum, std::abs(sum) * (sizeof(T) == 2 ? 0.004f : 1e-6f)) << i;
      }
      expect_near(found.dgamma, factor_gradient(floats(x), floats(dy), channels), 1e-5);
      std::vector<float> factors(count);
      for (std::size_t i = 0; i < count; ++i) factors[i] = gamma[i % channels];
      expect_near(found.sums, factor_gradient(factors, floats(dy), channels), 1e-5);
    }
  }
};

TEST_P(ScaleChannelsKernels, EqualTheDefinitionInFloat32) { expect_the_definition<float>(); }
TEST_P(ScaleChannelsKernels, EqualTheDefinitionInBf16) { expect_the_definition<Bf16>(); }

INSTANTIATE_TEST_SUITE_P(Sizes, ScaleChannelsKernels,
                         ::testing::Values(Size{9, 3}, Size{40, 12}, Size{2049, 8}, Size{300, 33}, Size{20, 1500}));

}  // namespace
}  // namespace carillon::testing
