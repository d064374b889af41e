// Tests a conv2d in bf16 if another op also reads its input. In the backward pass, the convolution adds its gradient of
// the input to the gradient of the other reader, in the same memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/kernels/bf16_conv2d_cases.h"
#include "tests/support/float_arrays.h"
#include "tests/support/naive_conv2d.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// A graph in which two convolutions, a and b, read x. The graph has no fork op: in the backward pass, b writes its
/// gradient of x, and then a adds its own gradient of x.
class TwoReaders {
 public:
  TwoReaders(const Conv2dCase& first, const Conv2dCase& second, Isa isa)
      : first_(first),
        second_(second),
        device_(first.threads, {.isa = isa}),
        harness_(first.batch, device_, Arithmetic::bf16) {
    Graph& graph = harness_.graph();
    const Value x = harness_.input("x", {first.batch, first.height, first.width, first.in});
    const Value a = relu_if(first.relu, graph, conv2d(graph, "a", x, first.params)),
                b = conv2d(graph, "b", x, second.params);
    harness_.finish(add(graph, "sum", a, b));
    EXPECT_TRUE(
        std::ranges::none_of(graph.nodes(), [](const Graph::Node& node) { return node.definition->type() == "fork"; }));
  }

  /// Returns dx, the gradient of a's filters and the gradient of b's filters, concatenated.
  std::vector<float> gradients() {
    harness_.forward();
    harness_.backward();
    std::vector<float> all;
    for (const char* const name : {"x", "a/weights", "b/weights"}) {
      const auto gradient = harness_.gradient(name);
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
    return all;
  }

  void expect_definition() {
    gradients();
    // This second result must not depend on what the first call of gradients() left in memory.
    const std::vector<float> found = gradients();
    const auto x = rounded_to_bf16<float>(harness_.values("x")),
               filters_of_first = rounded_to_bf16<float>(harness_.values("a/weights")),
               filters_of_second = rounded_to_bf16<float>(harness_.values("b/weights"));
    const NaiveConv2d naive(first_);
    const std::vector<float> dy = OpHarness::output_gradient(static_cast<std::size_t>(naive.y_shape.element_count()));
    const std::vector<double> dz_of_second = rounded_to_bf16<double>(std::vector<double>(dy.begin(), dy.end()));
    std::vector<double> dz_of_first = dz_of_second;
    const std::vector<double> y = naive.forward(x, filters_of_first, harness_.values("a/biases"));
    for (std::size_t i = 0; i < y.size() && first_.relu; ++i) dz_of_first[i] = y[i] > 0.0 ? dz_of_first[i] : 0.0;
    const Conv2dGradients of_first = naive.backward(x, filters_of_first, dz_of_first),
                          of_second = NaiveConv2d(second_).backward(x, filters_of_second, dz_of_second);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = of_first.x[i] + of_second.x[i];
      // b's gradient of x and the sum of both gradients are each rounded to bf16, with an error of at most half a unit
      // of the last place. 2e-4: error of the float32 sums.
      ASSERT_NEAR(found[i], expected, (std::abs(expected) + 1.01 * std::abs(of_second.x[i])) * 0x1p-8 + 2e-4) << i;
    }
    const std::span filters = std::span(found).subspan(x.size());
    EXPECT_LT(relative_error(filters.first(of_first.weights.size()), of_first.weights), bf16_sum_error);
    EXPECT_LT(relative_error(filters.subspan(of_first.weights.size()), of_second.weights), bf16_sum_error);
  }

 private:
  Conv2dCase first_, second_;
  CpuDevice device_;
  OpHarness harness_;
};

TEST(Bf16ConvolutionOfTwoReaders, AddsItsDataGradientToThatOfAnotherReader) {
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t channels : {5, 40, 64}) {
      for (const std::int64_t kernel : {1, 3}) {
        const Conv2dCase first{18, 6, 6, channels, {.filters = 17, .kernel = kernel, .stride = stride}, 2, kernel == 3},
            second{18, 6, 6, channels, {.filters = 17, .kernel = 3 - stride, .stride = stride}};
        for (const Isa isa : product_isas()) {
          SCOPED_TRACE(::testing::PrintToString(first) + isa_name(isa));
          TwoReaders(first, second, isa).expect_definition();
        }
      }
    }
  }
}

TEST(Bf16ConvolutionOfTwoReaders, AddsWithEqualBitsAtAnyNumberOfThreads) {
  Conv2dCase first{37, 5, 5, 70, {.filters = 17, .kernel = 3}};
  const Conv2dCase second{37, 5, 5, 70, {.filters = 17, .kernel = 1}};
  for (const Isa isa : product_isas()) {
    first.threads = 1;
    const std::vector<float> expected = TwoReaders(first, second, isa).gradients();
    for (const int threads : {2, 3, 7}) {
      first.threads = threads;
      EXPECT_TRUE(equal_bits(TwoReaders(first, second, isa).gradients(), expected)) << threads << isa_name(isa);
    }
  }
}

/// In two consecutive residual blocks, the gradients of the convolutions, batch norms and additions share memory.
TEST(Bf16ConvolutionOfTwoReaders, ResidualBlocksHaveTheGradientsOfFloat32) {
  const auto gradients_in = [](Arithmetic arithmetic) {
    CpuDevice device(2);
    OpHarness harness(24, device, arithmetic);
    Graph& graph = harness.graph();
    Value x = harness.input("x", {24, 6, 6, 32});
    for (const std::string block : {"first", "second"}) {
      const auto convolution = [&](const std::string& name, Value from, std::int64_t kernel) {
        const Value z = conv2d(graph, block + name, from, {.filters = 32, .kernel = kernel, .biases = std::nullopt});
        return batch_norm(graph, block + name + "/norm", z);
      };
      const Value branch = gelu(graph, block + "/gelu", convolution("/1", x, 1));
      x = add(graph, block + "/sum", convolution("/2", branch, 3), x);
    }
    harness.finish(x);
    const auto is_fork = [](const Graph::Node& node) { return node.definition->type() == "fork"; };
    EXPECT_EQ(std::ranges::count_if(graph.nodes(), is_fork), arithmetic == Arithmetic::bf16 ? 0 : 2);
    harness.forward();
    harness.backward();
    std::vector<std::vector<float>> gradients;
    for (const ParameterSpec& spec : graph.parameters()) {
      const auto gradient = harness.gradient(spec.name);
      gradients.emplace_back(gradient.begin(), gradient.end());
    }
    return gradients;
  };
  const auto found = gradients_in(Arithmetic::bf16), expected = gradients_in(Arithmetic::fp32);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> exact(expected[i].begin(), expected[i].end());
    EXPECT_LT(relative_error(found[i], exact), 0.03) << "variable " << i;
  }
}
}  // namespace
}  // namespace carillon::testing
