// Runs the CUDA kernels of layer_norm on the CPU, by loops over blocks and threads (`emulate`), and compares the
// results with the CPU implementation.
#include <gtest/gtest.h>

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_backward_kernel.h"
#include "kernels/layer_norm/layer_norm_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t rows, channels;
  float mean = 0.0f;
};

struct Found {
  std::vector<float> y, dx, dgamma, dbeta;
};

Found cpu_layer_norm(const Case& c, const std::vector<float>& x) {
  OpHarness harness(c.rows);
  harness.finish(layer_norm(harness.graph(), "norm", harness.input("x", {c.rows, c.channels})));
  harness.set("x", x);
  const auto copied = [](std::span<const float> values) { return std::vector<float>(values.begin(), values.end()); };
  Found found{.y = copied(harness.forward())};
  harness.backward();
  found.dx = copied(harness.gradient("x"));
  found.dgamma = copied(harness.gradient("norm/gamma"));
  found.dbeta = copied(harness.gradient("norm/beta"));
  return found;
}

std::vector<Pack<float, 8>> packs_of(const std::vector<float>& values) {
  std::vector<Pack<float, 8>> packs(values.size() / 8 + 1);  // the type's alignment suffices for packs of any size
  std::ranges::copy(values, packs.front().at);
  return packs;
}

/// Runs the kernels in the same order as LayerNormCuda. Each pack has n channels. If `dx` is not empty, the kernels add
/// the gradient to it.
template <typename T, int n, int packs>
class Emulated {
 public:
  Emulated(const Case& c, const std::vector<T>& x, ThreadOrder order, const std::vector<T>& dx)
      : order_(order),
        x_(x),
        y_(filled<T>(x.size())),
        dy_(rounded<T>(OpHarness::output_gradient(x.size()))),
        adds_(!dx.empty()),
        dx_(adds_ ? dx : filled<T>(x.size())),
        gamma_(packs_of(random_values(static_cast<std::size_t>(c.channels), 101))),  // as in OpHarness: x is variable 0
        beta_(packs_of(random_values(static_cast<std::size_t>(c.channels), 102))),
        norms_(static_cast<std::size_t>(c.rows)),
        rows_{layer_norm_cut(c.rows, c.channels, n), x_.data(), gamma_.front().at},
        cut_(packs > 0 ? layer_norm_sums_cut(rows_.cut) : column_cut(c.rows, c.channels, n)),
        parts_(2 * static_cast<std::size_t>(cut_.row_blocks() * cut_.columns), std::nan("")) {
    found_.dgamma = found_.dbeta = filled<float>(static_cast<std::size_t>(c.channels));
  }

  Found run() {
    emulate(LayerNormForward<T, n, packs>{rows_, beta_.front().at, 1e-6f, norms_.data(), y_.data()}, order_);
    const ColumnParts parts{parts_.data(), parts_.data() + parts_.size() / 2};
    if constexpr (packs > 0) {
      emulate(LayerNormBackward<T, n, packs>{rows_, norms_.data(), dy_.data(), dx_.data(), adds_, cut_, parts}, order_);
    } else {
      emulate(LayerNormGradient<T, n>{rows_, norms_.data(), dy_.data(), dx_.data(), adds_}, order_);
      const LayerNormGradients<T, n> terms{x_.data(), dy_.data(), norms_.data(),
                                           static_cast<std::uint32_t>(cut_.columns)};
      emulate(ColumnSums<n, LayerNormGradients<T, n>>{terms, cut_, parts}, order_);
    }
    emulate(CombineColumnSums{{}, cut_, parts, found_.dbeta.data(), found_.dgamma.data()}, order_);
    found_.y = floats(y_);
    found_.dx = floats(dx_);
    return found_;
  }

 private:
  ThreadOrder order_;
  std::vector<T> x_, y_, dy_;
  bool adds_;
  std::vector<T> dx_;
  std::vector<Pack<float, 8>> gamma_, beta_;
  std::vector<RowNorm> norms_;
  LayerNormRows<T, n, packs> rows_;
  ColumnCut cut_;
  std::vector<double> parts_;
  Found found_;
};

template <typename T>
Found emulate_layer_norm(const Case& c, const std::vector<T>& x, ThreadOrder order, const std::vector<T>& dx = {}) {
  Found found;
  with_pack_size<T>(c.channels, [&]<int n>(std::integral_constant<int, n>) {
    with_layer_norm_packs<T, n>(
        layer_norm_cut(c.rows, c.channels, n),
        [&]<int packs>(std::integral_constant<int, packs>) { found = Emulated<T, n, packs>(c, x, order, dx).run(); });
  });
  return found;
}

class LayerNormKernels : public ::testing::TestWithParam<Case> {
 protected:
  template <typename T>
  std::vector<T> input() const {
    std::vector<float> values = random_values(static_cast<std::size_t>(GetParam().rows * GetParam().channels), 5);
    for (float& value : values) value += GetParam().mean;
    return rounded<T>(values);
  }
  template <typename T>
  void expect_the_cpu_form(double activation, double sum) const {
    const std::vector<T> x = input<T>();
    const Found expected = cpu_layer_norm(GetParam(), floats(x));
    const Found found = emulate_layer_norm(GetParam(), x, ThreadOrder::ascending);
    expect_near(found.y, expected.y, activation);
    expect_near(found.dx, expected.dx, activation);
    expect_near(found.dgamma, expected.dgamma, sum);
    expect_near(found.dbeta, expected.dbeta, sum);
  }
};

TEST_P(LayerNormKernels, EqualTheCpuFormInFloat32) { expect_the_cpu_form<float>(1e-5, 2e-5); }
/// The kernels read dy rounded to bf16. A sum adds the rounding errors of all its terms, so the bounds are wider than
/// in float32.
TEST_P(LayerNormKernels, EqualTheCpuFormInBf16) { expect_the_cpu_form<Bf16>(3e-2, 0.1); }

TEST_P(LayerNormKernels, AddTheirGradientToThatOfOtherReaders) {
  const std::vector<float> x = input<float>(), before = random_values(x.size(), 6);
  const Found alone = emulate_layer_norm(GetParam(), x, ThreadOrder::ascending);
  std::vector<float> expected = before;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += alone.dx[i];
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    const Found found = emulate_layer_norm(GetParam(), x, order, before);
    EXPECT_TRUE(equal_bits(found.dx, expected));
    EXPECT_TRUE(equal_bits(found.dgamma, alone.dgamma));
    EXPECT_TRUE(equal_bits(found.dbeta, alone.dbeta));
  }
}

TEST_P(LayerNormKernels, DoNotDependOnTheOrderOfThreads) {
  const std::vector<Bf16> x = input<Bf16>();
  const Found ascending = emulate_layer_norm(GetParam(), x, ThreadOrder::ascending);
  const Found descending = emulate_layer_norm(GetParam(), x, ThreadOrder::descending);
  EXPECT_TRUE(equal_bits(ascending.y, descending.y));
  EXPECT_TRUE(equal_bits(ascending.dx, descending.dx));
  EXPECT_TRUE(equal_bits(ascending.dgamma, descending.dgamma));
  EXPECT_TRUE(equal_bits(ascending.dbeta, descending.dbeta));
}

INSTANTIATE_TEST_SUITE_P(Sizes, LayerNormKernels,
                         ::testing::Values(Case{9, 3}, Case{5, 7}, Case{40, 12}, Case{300, 33}, Case{2049, 8},
                                           Case{70, 384}, Case{33, 96, 50.0f}, Case{20, 1500}, Case{19, 64},
                                           Case{7, 1024}, Case{5, 1600}, Case{1203, 1024}));

}  // namespace
}  // namespace carillon::testing
