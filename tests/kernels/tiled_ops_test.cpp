// Tests sections of ops that process the batch in tiles. Tiles may change only the order of sums over samples.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "kernels/conv2d/conv2d.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/lrn/lrn.h"
#include "kernels/pool/pool.h"
#include "src/graph/batch_tiling.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

void take_batch_whole(Graph& graph) {
  std::vector<Graph::Node> nodes = graph.nodes();
  for (Graph::Node& node : nodes) node.traits.samples_are_independent = false;
  graph.replace_nodes(std::move(nodes));
}

struct Results {
  std::vector<float> output, input_gradient;
  std::vector<std::vector<float>> gradients;  ///< the gradients of the parameters
};

constexpr std::int64_t batch_size = 29;
const std::vector<std::string> parameters{"conv1/weights", "conv1/biases", "conv2/weights", "conv2/biases"};

/// Runs the convolutional layers of the tutorial's network, on images of another size.
Results run(bool is_tiled, int threads, ConvolutionMethod method) {
  CpuDevice device(threads, {.convolution = method});
  OpHarness harness(batch_size, device);
  Graph& graph = harness.graph();
  const Value image = harness.input("image", {batch_size, 26, 22, 3});
  Value x = relu(graph, "conv1/relu", conv2d(graph, "conv1", image, {.filters = 48, .kernel = 5}));
  x = lrn(graph, "norm1", max_pool(graph, "pool1", x, {.window = 3, .stride = 2}));
  x = relu(graph, "conv2/relu", conv2d(graph, "conv2", x, {.filters = 40, .kernel = 3}));
  x = max_pool(graph, "pool2", lrn(graph, "norm2", x), {.window = 3, .stride = 2});
  if (!is_tiled) take_batch_whole(graph);
  harness.finish(x);
  EXPECT_EQ(plan_tiling(graph, threads)[1].tiles, is_tiled ? 4 : 1);
  Results results;
  const std::span<const float> output = harness.forward();
  results.output.assign(output.begin(), output.end());
  harness.backward();
  const auto copy = [&](const std::string& name) {
    const std::span<const float> values = harness.gradient(name);
    return std::vector<float>(values.begin(), values.end());
  };
  results.input_gradient = copy("image");
  for (const std::string& name : parameters) results.gradients.push_back(copy(name));
  return results;
}

double norm(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

class TiledSectionCase : public ::testing::TestWithParam<ConvolutionMethod> {};

TEST_P(TiledSectionCase, GivesWhatTheWholeBatchGives) {
  const Results whole = run(false, 1, GetParam()), tiled = run(true, 1, GetParam());
  EXPECT_EQ(tiled.output, whole.output);
  EXPECT_EQ(tiled.input_gradient, whole.input_gradient);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<float> differences = tiled.gradients[i];
    for (std::size_t k = 0; k < differences.size(); ++k) differences[k] -= whole.gradients[i][k];
    EXPECT_LT(norm(differences), 5e-6 * norm(whole.gradients[i])) << parameters[i];
  }
}

TEST_P(TiledSectionCase, GivesEqualBitsAtAnyNumberOfThreads) {
  const Results one = run(true, 1, GetParam());
  for (const int threads : {2, 3, 4, 7}) {
    const Results several = run(true, threads, GetParam());
    EXPECT_EQ(several.output, one.output) << threads;
    EXPECT_EQ(several.input_gradient, one.input_gradient) << threads;
    EXPECT_EQ(several.gradients, one.gradients) << threads;
  }
}

TEST_P(TiledSectionCase, GivesTheSameAgain) {
  CpuDevice device(2, {.convolution = GetParam()});
  OpHarness harness(batch_size, device);
  const Value image = harness.input("image", {batch_size, 30, 30, 3});
  Value x = conv2d(harness.graph(), "conv1", image, {.filters = 64, .kernel = 5});
  harness.finish(max_pool(harness.graph(), "pool1", x, {.window = 2, .stride = 2}));
  harness.forward();
  harness.backward();
  const std::span<const float> now = harness.gradient("conv1/weights");
  const std::vector<float> first(now.begin(), now.end());
  harness.forward();
  harness.backward();
  EXPECT_EQ(std::vector<float>(now.begin(), now.end()), first);
}

/// If a parallel region uses fewer threads than the region before it, OpenMP may end the unused threads. In this case,
/// the threads that run the tiles are not the threads that created the tiles.
TEST_P(TiledSectionCase, MayRunInOtherThreadsThanItWasMadeIn) {
  const auto output_after = [](bool threads_go) {
    CpuDevice device(4, {.convolution = GetParam()});
    OpHarness harness(64, device);
    const Value image = harness.input("image", {64, 28, 28, 1});
    Value x = relu(harness.graph(), "relu", conv2d(harness.graph(), "conv1", image, {.filters = 32, .kernel = 5}));
    x = max_pool(harness.graph(), "pool1", x, {.window = 2, .stride = 2});
    harness.finish(x);
    if (threads_go) {
#pragma omp parallel num_threads(2)
      std::this_thread::yield();
    }
    const std::span<const float> output = harness.forward();
    harness.backward();
    std::vector<float> all(output.begin(), output.end());
    const std::span<const float> gradient = harness.gradient("conv1/weights");
    all.insert(all.end(), gradient.begin(), gradient.end());
    return all;
  };
  EXPECT_EQ(output_after(true), output_after(false));
}

INSTANTIATE_TEST_SUITE_P(Methods, TiledSectionCase,
                         ::testing::Values(ConvolutionMethod::direct, ConvolutionMethod::winograd),
                         [](const auto& test) {
                           return test.param == ConvolutionMethod::direct ? "direct" : "winograd";
                         });

TEST(BatchTiling, ActivationsAndAveragesAreTheSameBitsInTiles) {
  std::vector<float> output, gradient;
  for (const bool is_tiled : {false, true}) {
    OpHarness harness(batch_size, 2);
    Graph& graph = harness.graph();
    Value x = gelu(graph, "gelu", harness.input("x", {batch_size, 13, 11, 192}));
    x = silu(graph, "silu", avg_pool(graph, "pool", x, {.window = 3, .stride = 2}));
    x = global_avg_pool(graph, "mean", x);
    if (!is_tiled) take_batch_whole(graph);
    harness.finish(x);
    EXPECT_EQ(plan_tiling(graph, 2)[1].tiles > 1, is_tiled);
    const std::vector<float> y(harness.forward().begin(), harness.forward().end());
    harness.backward();
    const std::vector<float> dx(harness.gradient("x").begin(), harness.gradient("x").end());
    if (!is_tiled) output = y;
    if (!is_tiled) gradient = dx;
    EXPECT_EQ(y, output);
    EXPECT_EQ(dx, gradient);
  }
}

}  // namespace
}  // namespace carillon::testing
