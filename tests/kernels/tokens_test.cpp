#include "kernels/tokens/tokens.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/tokens/tokens_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"
#include "tests/support/op_results.h"

namespace carillon::testing {
namespace {

struct TokensCase {
  std::int64_t batch, height, width, channels;
  int threads = 1;

  std::int64_t patches() const { return height * width * channels; }  ///< number of elements per sample of x
  std::int64_t size() const { return patches() + channels; }          ///< number of elements per sample of y
};

/// Runs the kernel `element` on the CPU for `count` elements, as launch_each does on a GPU. Each pack has n elements.
template <int n, typename Element>
void emulate_packs(const Element& element, std::size_t count, ThreadOrder order = ThreadOrder::ascending) {
  emulate(ForEachElement{element, static_cast<std::int64_t>(count) / n}, order);
}

class Tokens : public ::testing::TestWithParam<TokensCase> {};

TEST_P(Tokens, AreTheClassTokenAndThePatchesPlusPositions) {
  const TokensCase form = GetParam();
  OpHarness harness(form.batch, form.threads);
  harness.finish(embed_tokens(harness.graph(), "tokens",
                              harness.input("x", {form.batch, form.height, form.width, form.channels}), {}));
  const auto x = harness.values("x"), start = harness.values("tokens/class"), at = harness.values("tokens/positions");
  ASSERT_EQ(static_cast<std::int64_t>(at.size()), form.size());
  const auto y = harness.forward();
  for (std::int64_t b = 0; b < form.batch; ++b) {
    for (std::int64_t i = 0; i < form.size(); ++i) {
      const float token = i < form.channels ? start[i] : x[b * form.patches() + i - form.channels];
      ASSERT_EQ(y[b * form.size() + i], token + at[i]) << b << ", " << i;
    }
  }
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

TEST_P(Tokens, FirstOneIsTakenOut) {
  const TokensCase form = GetParam();
  const std::int64_t count = form.height * form.width;
  OpHarness harness(form.batch, form.threads);
  harness.finish(first_token(harness.graph(), "class", harness.input("x", {form.batch, count, form.channels})));
  const auto x = harness.values("x");
  const auto y = harness.forward();
  for (std::int64_t b = 0; b < form.batch; ++b) {
    for (std::int64_t c = 0; c < form.channels; ++c) {
      ASSERT_EQ(y[b * form.channels + c], x[b * form.patches() + c]);
    }
  }
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

/// Emulates the CUDA kernels on the CPU. Expects results with the same bits as the results of the CPU implementation.
TEST_P(Tokens, HaveTheSameBitsOnAGpu) {
  const TokensCase form = GetParam();
  OpHarness harness(form.batch, form.threads);
  harness.finish(embed_tokens(harness.graph(), "tokens",
                              harness.input("x", {form.batch, form.height, form.width, form.channels}), {}));
  const auto y = harness.forward();
  harness.backward();
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> found(y.size()), dx(harness.values("x").size()), dclass(static_cast<std::size_t>(form.channels)),
        dpositions(static_cast<std::size_t>(form.size()));
    with_pack_size<float>(form.channels, [&]<int n>(std::integral_constant<int, n>) {
      emulate_packs<n>(EmbedTokensForward<float, n>{harness.values("x").data(), harness.values("tokens/class").data(),
                                                    harness.values("tokens/positions").data(), found.data(),
                                                    form.size(), form.channels},
                       y.size(), order);
      emulate_packs<n>(EmbedTokensSums<float, n>{dy.data(), dclass.data(), dpositions.data(), form.batch, form.size(),
                                                 form.channels},
                       dpositions.size(), order);
      emulate_packs<n>(EmbedTokensBackward<float, n>{dy.data(), dx.data(), form.size(), form.channels}, dx.size(),
                       order);
    });
    EXPECT_TRUE(equal_bits(found, copy(y)));
    EXPECT_TRUE(equal_bits(dclass, copy(harness.gradient("tokens/class"))));
    EXPECT_TRUE(equal_bits(dpositions, copy(harness.gradient("tokens/positions"))));
    EXPECT_TRUE(equal_bits(dx, copy(harness.gradient("x"))));
  }
}

TEST_P(Tokens, FirstOneHasTheSameBitsOnAGpu) {
  const TokensCase form = GetParam();
  OpHarness harness(form.batch, form.threads);
  harness.finish(
      first_token(harness.graph(), "class", harness.input("x", {form.batch, form.height * form.width, form.channels})));
  const auto y = harness.forward();
  harness.backward();
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  std::vector<float> found(y.size()), dx(harness.values("x").size(), 9.0f);
  with_pack_size<float>(form.channels, [&]<int n>(std::integral_constant<int, n>) {
    emulate_packs<n>(
        FirstTokenForward<float, n>{harness.values("x").data(), found.data(), form.patches(), form.channels}, y.size());
    emulate_packs<n>(FirstTokenBackward<float, n>{dy.data(), dx.data(), form.patches(), form.channels}, dx.size());
  });
  EXPECT_TRUE(equal_bits(found, copy(y)));
  EXPECT_TRUE(equal_bits(dx, copy(harness.gradient("x"))));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Tokens,
                         ::testing::Values(TokensCase{1, 1, 1, 1}, TokensCase{3, 2, 3, 5}, TokensCase{2, 4, 4, 33, 2},
                                           TokensCase{9, 14, 14, 24, 2}));

TEST(Tokens, ClassTokenHasAGradientWithoutThePositions) {
  std::vector<float> dy{1, 2, 3, 4, 5, 6, 7, 8}, dclass(2, 9.0f), any(8);
  const Tensor patches{any.data(), {2, 1, 1, 2}}, tokens{any.data(), {2, 2, 2}};
  const auto op = make_embed_tokens_cpu({.inputs = {patches},
                                         .outputs = {tokens},
                                         .input_gradients = {Tensor{}},
                                         .output_gradients = {Tensor{dy.data(), {2, 2, 2}}},
                                         .parameters = {Tensor{any.data(), {1, 1, 2}}, Tensor{any.data(), {1, 2, 2}}},
                                         .parameter_gradients = {Tensor{dclass.data(), {1, 1, 2}}, Tensor{}}});
  CpuDevice device(1);
  op->backward(device.stream());
  EXPECT_EQ(dclass, (std::vector<float>{6, 8}));
}

TEST(Tokens, RefuseOtherShapes) {
  OpHarness harness(2);
  const Value flat = harness.input("x", {2, 12});
  EXPECT_THROW(embed_tokens(harness.graph(), "tokens", flat, {}), Error);
  EXPECT_THROW(first_token(harness.graph(), "class", flat), Error);
}

}  // namespace
}  // namespace carillon::testing
