// Runs the CUDA kernels of batch_norm on the CPU, by loops over blocks and threads (`emulate`), and compares the
// results with the CPU implementation.
#include <gmock/gmock.h>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/batch_norm_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "src/graph/passes.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t rows, channels;
  ActivationKind activation = ActivationKind::none;
  float mean = 0.0f;
  bool frozen = false;
  bool has_addend = false;
};

struct Found {
  std::vector<float> y, dx, daddend, dgamma, dbeta, moving_mean, moving_variance, evaluation;
};

/// Running statistics of a frozen batch norm.
std::vector<float> moving_means(std::int64_t channels) { return random_values(static_cast<std::size_t>(channels), 77); }
std::vector<float> moving_variances(std::int64_t channels) {
  return random_values(static_cast<std::size_t>(channels), 78, 0.5f, 3.0f);
}

std::vector<float> addends(const Case& c) { return random_values(static_cast<std::size_t>(c.rows * c.channels), 79); }

Found cpu_batch_norm(const Case& c, const std::vector<float>& x, const std::vector<float>& addend) {
  OpHarness harness(c.rows);
  const Shape shape{c.rows, c.channels};
  Graph& graph = harness.graph();
  const Value input = harness.input("x", shape);
  Value output = batch_norm(graph, "norm", input);
  if (c.has_addend) output = add(graph, "sum", output, harness.input("addend", shape));
  output = activated(c.activation, graph, output);
  freeze_statistics(graph, [&](const Graph::Node&) { return c.frozen; });
  harness.finish(output);
  if (c.frozen) {
    std::ranges::copy(moving_means(c.channels), harness.state("norm/moving_mean").begin());
    std::ranges::copy(moving_variances(c.channels), harness.state("norm/moving_variance").begin());
  }
  harness.set("x", x);
  if (c.has_addend) harness.set("addend", addend);
  const auto copied = [](std::span<const float> values) { return std::vector<float>(values.begin(), values.end()); };
  Found found{.y = copied(harness.forward())};
  harness.backward();
  found.dx = copied(harness.gradient("x"));
  if (c.has_addend) found.daddend = copied(harness.gradient("addend"));
  found.dgamma = copied(harness.gradient("norm/gamma"));
  found.dbeta = copied(harness.gradient("norm/beta"));
  found.moving_mean = copied(harness.state("norm/moving_mean"));
  found.moving_variance = copied(harness.state("norm/moving_variance"));
  found.evaluation = copied(harness.evaluate());
  return found;
}

/// Runs the kernels in the same order as BatchNormCuda. Each pack has n channels.
template <typename T, int n>
class Emulated {
 public:
  Emulated(const Case& c, const std::vector<T>& x, ThreadOrder order)
      : c_(c),
        order_(order),
        cut_(column_cut(c.rows, c.channels, n, batch_norm_lanes)),
        x_(x),
        y_(filled<T>(x.size())),
        addend_(rounded<T>(addends(c))),
        dx_(rounded<T>(OpHarness::output_gradient(x.size()))),
        daddend_(filled<T>(x.size())),
        positive_(x.size() / n, 0xff),
        gamma_(random_values(width(), 101)),  // the same values as in OpHarness, which draws gamma as variable 1
        beta_(random_values(width(), 102)),
        norm_(3 * width()),
        gradient_(3 * width()),
        statistics_(width()),
        parts_(2 * width() * static_cast<std::size_t>(cut_.row_blocks()), std::nan("")),
        blocks_done_(static_cast<std::size_t>(cut_.column_blocks())) {
    found_.dgamma = found_.dbeta = filled<float>(width());
    found_.moving_mean.assign(width(), 0.0f);
    found_.moving_variance.assign(width(), 1.0f);
    if (!c.frozen) return;
    found_.moving_mean = moving_means(c.channels);
    found_.moving_variance = moving_variances(c.channels);
  }

  Found run() {
    if (c_.frozen) {
      emulate(ForEachElement{MovingNorm{channels()}, c_.channels}, order_);
    } else {
      sum_columns(BatchMoments<T, n>{x_.data()}, CombineMoments{{}, channels()});
    }
    normalise();
    found_.y = floats(y_);
    with_activation<T>(c_.activation, [&]<typename A>(A) { go_back<A>(); });
    if (c_.has_addend) found_.daddend = floats(daddend_);
    emulate(ForEachElement{MovingNorm{channels()}, c_.channels}, order_);
    normalise();
    found_.evaluation = floats(y_);
    return found_;
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(c_.channels); }
  PackedRows<n> packed() const {
    return {static_cast<std::uint32_t>(c_.rows), static_cast<std::uint32_t>(c_.channels / n)};
  }
  static float* floats_of(std::vector<Pack<float, 8>>& packs) { return reinterpret_cast<float*>(packs.data()); }
  ColumnParts parts() { return {parts_.data(), parts_.data() + parts_.size() / 2}; }
  ChannelNorms norm() { return {floats_of(norm_), floats_of(norm_) + width(), floats_of(norm_) + 2 * width()}; }
  ChannelGradients gradient() {
    return {floats_of(gradient_), floats_of(gradient_) + width(), floats_of(gradient_) + 2 * width()};
  }
  BatchNormChannels channels() {
    return {gamma_.data(),
            beta_.data(),
            found_.moving_mean.data(),
            found_.moving_variance.data(),
            statistics_.data(),
            norm(),
            1e-5f,
            0.1f,
            c_.frozen};
  }

  void normalise() {
    with_activation<T>(c_.activation,
                       [&]<typename A>(A) { c_.has_addend ? normalise_as<A, true>() : normalise_as<A, false>(); });
  }

  template <typename Activation, bool has_addend>
  void normalise_as() {
    const NormaliseRows<T, n, Activation, has_addend> kernel{packed(),       norm(),    x_.data(),
                                                             addend_.data(), y_.data(), positive_.data()};
    emulate(ForEachElement{kernel, packed().count()}, order_);
  }

  template <typename Terms, typename Finish>
  void sum_columns(const Terms& terms, const Finish& finish) {
    emulate(ColumnSums<n, Terms, Finish>{terms, cut_, parts(), finish, blocks_done_.data()}, order_);
    EXPECT_THAT(blocks_done_, ::testing::Each(0u)) << "the next launch counts from 0";
  }
  CombineGradients combine_gradients() {
    return {{}, channels(), gradient(), found_.dgamma.data(), found_.dbeta.data()};
  }

  template <typename Activation>
  void go_back() {
    if (c_.has_addend) {
      daddend_ = dx_;  // daddend_ contains dy; if there is a ReLU, `sums` replaces dy by dz
      if constexpr (std::is_same_v<Activation, Relu>) {
        const SumGradients<T, n, false> sums{x_.data(), positive_.data(), daddend_.data(), nullptr, norm()};
        sum_columns(sums, combine_gradients());
      } else {
        const BatchGradients<T, n, Identity> sums{x_.data(), daddend_.data(), norm()};
        sum_columns(sums, combine_gradients());
      }
      find_gradients<Identity>(daddend_.data());
    } else {
      sum_columns(BatchGradients<T, n, Activation>{x_.data(), dx_.data(), norm()}, combine_gradients());
      find_gradients<Activation>(dx_.data());
    }
  }

  /// `dy`: the gradient of y. If Activation is Identity, `dy` may be dz, the gradient of the sum before the activation.
  template <typename Activation>
  void find_gradients(const T* dy) {
    const BatchNormGradient<T, n, Activation> kernel{packed(), norm(), gradient(), x_.data(), dy, dx_.data()};
    emulate(ForEachElement{kernel, packed().count()}, order_);
    found_.dx = floats(dx_);
  }

  Case c_;
  ThreadOrder order_;
  ColumnCut cut_;
  std::vector<T> x_, y_, addend_, dx_, daddend_;
  std::vector<std::uint8_t> positive_;
  std::vector<float> gamma_, beta_;
  std::vector<Pack<float, 8>> norm_, gradient_;  ///< the type's alignment suffices for packs of any size
  std::vector<ChannelStatistics> statistics_;
  std::vector<double> parts_;
  std::vector<std::uint32_t> blocks_done_;
  Found found_;
};

template <typename T>
Found emulate_batch_norm(const Case& c, const std::vector<T>& x, ThreadOrder order) {
  Found found;
  with_pack_size<T>(c.channels,
                    [&]<int n>(std::integral_constant<int, n>) { found = Emulated<T, n>(c, x, order).run(); });
  return found;
}

void expect_equal(const Found& found, const Found& expected, double activation, double sum) {
  expect_near(found.y, expected.y, activation);
  expect_near(found.dx, expected.dx, activation);
  expect_near(found.daddend, expected.daddend, activation);
  expect_near(found.dgamma, expected.dgamma, sum);
  expect_near(found.dbeta, expected.dbeta, sum);
  expect_near(found.moving_mean, expected.moving_mean, 1e-6);
  expect_near(found.moving_variance, expected.moving_variance, 1e-6);
  expect_near(found.evaluation, expected.evaluation, activation);
}

class BatchNormKernels : public ::testing::TestWithParam<Case> {
 protected:
  template <typename T>
  void expect_the_cpu_form(double activation, double sum) {
    const Case& c = GetParam();
    std::vector<float> values = random_values(static_cast<std::size_t>(c.rows * c.channels), 5);
    for (float& value : values) value += c.mean;
    const std::vector<T> x = rounded<T>(values);
    const Found expected = cpu_batch_norm(c, floats(x), floats(rounded<T>(addends(c))));
    const Found ascending = emulate_batch_norm(c, x, ThreadOrder::ascending);
    const Found descending = emulate_batch_norm(c, x, ThreadOrder::descending);
    expect_equal(ascending, expected, activation, sum);
    EXPECT_TRUE(equal_bits(ascending.y, descending.y));
    EXPECT_TRUE(equal_bits(ascending.dx, descending.dx));
    EXPECT_TRUE(equal_bits(ascending.dgamma, descending.dgamma));
    EXPECT_TRUE(equal_bits(ascending.moving_variance, descending.moving_variance));
  }
};

TEST_P(BatchNormKernels, EqualTheCpuFormInFloat32) { expect_the_cpu_form<float>(5e-6, 2e-5); }
/// The kernels read dy rounded to bf16. A sum adds the rounding errors of all its terms, so the bounds are wider than
/// in float32.
TEST_P(BatchNormKernels, EqualTheCpuFormInBf16) { expect_the_cpu_form<Bf16>(2e-2, 0.1); }

INSTANTIATE_TEST_SUITE_P(Sizes, BatchNormKernels,
                         ::testing::Values(Case{9, 1}, Case{5, 3, ActivationKind::relu}, Case{40, 12},
                                           Case{300, 33, ActivationKind::relu}, Case{2049, 8, ActivationKind::relu},
                                           Case{700, 260}, Case{1000, 16, ActivationKind::relu, 50.0f},
                                           Case{300, 33, ActivationKind::gelu}, Case{90, 16, ActivationKind::silu},
                                           Case{40, 12, ActivationKind::none, 0.5f, true},
                                           Case{300, 33, ActivationKind::relu, 0.0f, true},
                                           Case{700, 260, ActivationKind::gelu, 0.0f, true},
                                           Case{40, 12, ActivationKind::none, 0.0f, false, true},
                                           Case{300, 33, ActivationKind::relu, 0.0f, false, true},
                                           Case{700, 260, ActivationKind::relu, 0.0f, false, true}));

/// If two ops read y, the kernel can add their two gradients of y itself. Expects the same results as if a fork had
/// added the two gradients before the kernel runs.
template <typename T, int n>
void expect_the_sum_of_two_gradients(std::int64_t rows, std::int64_t columns, ThreadOrder order) {
  const std::size_t count = static_cast<std::size_t>(rows * columns);
  const std::vector<T> x = rounded<T>(random_values(count, 1)), second = rounded<T>(random_values(count, 3));
  std::vector<std::uint8_t> positive(count / n);
  for (std::size_t i = 0; i < positive.size(); ++i) positive[i] = static_cast<std::uint8_t>(i * 37 % (1u << n));
  std::vector<T> dy = rounded<T>(random_values(count, 4)), sum(count);
  for (std::size_t i = 0; i < count; ++i) sum[i] = stored_as<T>(to_float(dy[i]) + to_float(second[i]));
  std::vector<float> centre(static_cast<std::size_t>(columns) + 8, 0.25f);
  const ColumnCut cut = column_cut(rows, columns, n);
  const std::size_t part_count = static_cast<std::size_t>(cut.row_blocks() * columns);
  std::vector<double> found(2 * part_count), expected(2 * part_count);
  emulate(
      ColumnSums<n, SumGradients<T, n, true>>{{x.data(), positive.data(), dy.data(), second.data(), {centre.data()}},
                                              cut,
                                              {found.data(), found.data() + part_count}},
      order);
  emulate(ColumnSums<n, SumGradients<T, n, false>>{{x.data(), positive.data(), sum.data(), nullptr, {centre.data()}},
                                                   cut,
                                                   {expected.data(), expected.data() + part_count}},
          order);
  EXPECT_TRUE(equal_bits(floats(dy), floats(sum)));
  EXPECT_EQ(found, expected);
}

TEST(BatchNormKernels, AddTheGradientsOfTwoReadersWithTheBitsOfAFork) {
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    expect_the_sum_of_two_gradients<float, 1>(300, 33, order);
    expect_the_sum_of_two_gradients<float, 4>(2049, 12, order);
    expect_the_sum_of_two_gradients<Bf16, 1>(300, 33, order);
    expect_the_sum_of_two_gradients<Bf16, 4>(700, 260, order);
  }
}

TEST(BatchNormKernels, ABitOfTheMaskIsSetWhereTheReluPassesGradients) {
  const float nan = std::nanf(""), tiny = 1e-45f;  // in bf16, 1e-45 is 0
  EXPECT_EQ(positive_bits(Pack<float, 4>{{1.0f, nan, -0.0f, tiny}}), 0b1001);
  EXPECT_EQ(positive_bits(Pack<Bf16, 4>{{to_bf16(INFINITY), to_bf16(nan), to_bf16(0.0f), to_bf16(tiny)}}), 0b0001);
}

TEST(BatchNormKernels, FillAGpuButCombineFewBlocks) {
  for (const std::int64_t channels : {64, 256, 2048}) {
    const ColumnCut cut = column_cut(256 * 14 * 14, channels, 8, batch_norm_lanes);
    EXPECT_GE(cut.row_blocks() * cut.column_blocks(), 256);
    EXPECT_LE(cut.row_blocks() * cut.column_blocks(), 264);
    EXPECT_LE(cut.row_blocks(), 132);
  }
}

}  // namespace
}  // namespace carillon::testing
