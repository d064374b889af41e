#include "src/graph/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/gradient_ops.h"
#include "kernels/image_input/image_input.h"
#include "kernels/lrn/lrn.h"
#include "kernels/pool/pool.h"
#include "src/graph/batch_tiling.h"
#include "src/graph/memory_plan.h"

namespace carillon::testing {
namespace {

/// Returns a line for each node, such as "conv2d conv(input)": type, name and inputs.
std::vector<std::string> described(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Graph::Node& node : graph.nodes()) {
    std::string inputs;
    for (const int input : node.inputs) inputs += (inputs.empty() ? "" : ", ") + graph.values()[input].name;
    lines.push_back(std::string(node.definition->type()) + " " + node.name + "(" + inputs + ")");
  }
  return lines;
}

class Passes : public ::testing::Test {
 protected:
  Value images() { return image_input(graph_, "input", {.sample = {8, 8, 2}}); }
  Value convolution(const std::string& name, Value x) { return conv2d(graph_, name, x, {.filters = 2, .kernel = 3}); }
  bool keeps_output(std::size_t node) const { return graph_.nodes()[node].definition->backward_needs().outputs; }

  Graph graph_{2};
};

TEST_F(Passes, OpsThatNoOpReadsAreRemovedUnlessTheyHaveVariables) {
  const Value x = convolution("conv", images());
  relu(graph_, "after", gelu(graph_, "unread", x));
  convolution("trained", x);
  remove_unread(graph_, std::vector{gelu(graph_, "result", x)});
  EXPECT_EQ(described(graph_), (std::vector<std::string>{"image_input input()", "conv2d conv(input)",
                                                         "conv2d trained(conv)", "gelu result(conv)"}));
}

TEST_F(Passes, AReluBecomesPartOfTheOpBeforeIt) {
  const Value y = relu(graph_, "conv/relu", convolution("conv", images()));
  fuse_activations(graph_, std::vector{lrn(graph_, "norm", y)});
  EXPECT_EQ(described(graph_),
            (std::vector<std::string>{"image_input input()", "conv2d conv(input)", "lrn norm(conv)"}));
  EXPECT_TRUE(keeps_output(1)) << "the ReLU was lost";
}

TEST_F(Passes, ASumTakesItsReluButNoOtherActivation) {
  const Value x = convolution("conv", images()), y = add(graph_, "sum", lrn(graph_, "norm", x), x);
  const Value z = add(graph_, "next", relu(graph_, "relu", y), x);
  fuse_activations(graph_, std::vector{gelu(graph_, "gelu", z)});
  const std::vector<std::string> ops = described(graph_);
  EXPECT_EQ(ops.at(3), "add sum(norm, conv)");
  EXPECT_EQ(ops.at(4), "add next(sum, conv)");
  EXPECT_EQ(ops.at(5), "gelu gelu(next)");
  EXPECT_TRUE(keeps_output(3)) << "the ReLU was lost";
  EXPECT_FALSE(keeps_output(4));
}

TEST_F(Passes, ASumAndItsReluBecomePartOfTheBatchNormBeforeThem) {
  const Value x = convolution("conv", images()), y = batch_norm(graph_, "norm", x);
  const std::vector results{relu(graph_, "relu", add(graph_, "sum", x, y))};
  fuse_additions(graph_, DeviceKind::cpu, results);
  fuse_activations(graph_, results);
  EXPECT_EQ(described(graph_),
            (std::vector<std::string>{"image_input input()", "conv2d conv(input)", "batch_norm norm(conv, conv)"}));
  EXPECT_TRUE(keeps_output(2)) << "the ReLU was lost";
}

/// The addition is fused into the later one of the two batch norms. Therefore the parameters remain in the order of the
/// ops.
TEST_F(Passes, OfTwoBatchNormsTheLaterTakesTheirSum) {
  const Value x = images(), a = batch_norm(graph_, "a", convolution("conv_a", x));
  const Value b = batch_norm(graph_, "b", convolution("conv_b", x));
  fuse_additions(graph_, DeviceKind::cpu, std::vector{add(graph_, "sum", a, b)});
  EXPECT_EQ(described(graph_).back(), "batch_norm b(conv_b, a)");
}

TEST_F(Passes, ASumStaysIfTheBatchNormIsReadElsewhereOrHasAnActivation) {
  const Value x = convolution("conv", images()), a = batch_norm(graph_, "a", x);
  const Value sum = add(graph_, "sum", a, x), b = relu(graph_, "relu", batch_norm(graph_, "b", sum));
  const std::vector results{add(graph_, "next", b, x), a};
  fuse_activations(graph_, results);
  fuse_additions(graph_, DeviceKind::cpu, results);
  const std::vector<std::string> ops = described(graph_);
  EXPECT_EQ(ops.at(3), "add sum(a, conv)");
  EXPECT_EQ(ops.back(), "add next(b, conv)");
}

TEST_F(Passes, ABatchNormWithASumTakesNoGelu) {
  const Value x = convolution("conv", images()), y = batch_norm(graph_, "norm", x);
  const std::vector results{gelu(graph_, "gelu", add(graph_, "sum", y, x))};
  fuse_additions(graph_, DeviceKind::cpu, results);
  fuse_activations(graph_, results);
  EXPECT_EQ(described(graph_).back(), "gelu gelu(norm)");
}

TEST_F(Passes, AReluBeforeAPoolingBecomesPartOfThePooling) {
  const Value y = relu(graph_, "conv/relu", convolution("conv", images()));
  fuse_activations(graph_, std::vector{max_pool(graph_, "pool", y, {.window = 2, .stride = 2})});
  EXPECT_EQ(described(graph_),
            (std::vector<std::string>{"image_input input()", "conv2d conv(input)", "max_pool pool(conv)"}));
  EXPECT_FALSE(keeps_output(1));
  EXPECT_TRUE(keeps_output(2)) << "the ReLU was lost";
}

TEST_F(Passes, AReluThatIsReadFromOutsideStaysAValue) {
  const Value y = relu(graph_, "conv/relu", convolution("conv", images()));
  fuse_activations(graph_, std::vector{max_pool(graph_, "pool", y, {.window = 2, .stride = 2}), y});
  EXPECT_TRUE(keeps_output(1)) << "taken by the convolution";
  EXPECT_FALSE(keeps_output(2));
  EXPECT_EQ(graph_.values()[y.index].producer, 1);
}

TEST_F(Passes, AReluAfterAValueWithSeveralReadersStaysAnOp) {
  const Value z = convolution("conv", images());
  fuse_activations(graph_, std::vector{add(graph_, "sum", relu(graph_, "relu", z), z)});
  EXPECT_EQ(described(graph_).at(2), "relu relu(conv)");
  EXPECT_FALSE(keeps_output(1));
}

TEST_F(Passes, AReluWithNobodyToTakeItStaysAnOp) {
  const Value y = relu(graph_, "relu", lrn(graph_, "norm", convolution("conv", images())));
  fuse_activations(graph_, std::vector{lrn(graph_, "second", y)});
  EXPECT_EQ(described(graph_).at(3), "relu relu(norm)");
}

TEST_F(Passes, BiasesBeforeAPoolingBecomePartOfIt) {
  const Value y = relu(graph_, "conv/relu", convolution("conv", images()));
  const std::vector results{max_pool(graph_, "pool", y, {.window = 2, .stride = 2})};
  fuse_activations(graph_, results);
  defer_biases(graph_, results);
  EXPECT_EQ(graph_.nodes()[1].parameters, std::vector{0});
  EXPECT_EQ(graph_.nodes()[2].parameters, std::vector{1});
  EXPECT_TRUE(keeps_output(2)) << "the ReLU was lost";
}

TEST_F(Passes, BiasesStayWhereTheirSumIsRead) {
  const auto stays = [&](const std::vector<Value>& results) {
    fuse_activations(graph_, results);
    defer_biases(graph_, results);
    return graph_.nodes()[1].parameters == std::vector{0, 1};
  };
  const Value z = convolution("conv", images());
  const Value y = max_pool(graph_, "pool", z, {.window = 2, .stride = 2});
  EXPECT_TRUE(stays({y, z}));
  lrn(graph_, "norm", z);
  EXPECT_TRUE(stays({y}));
}

TEST_F(Passes, BiasesStayAfterAReluFusedIntoTheConvolution) {
  const Value z = relu(graph_, "conv/relu", convolution("conv", images()));
  const Value y = max_pool(graph_, "pool", z, {.window = 2, .stride = 2});
  fuse_activations(graph_, std::vector{y, z});
  defer_biases(graph_, std::vector{y});
  EXPECT_EQ(graph_.nodes()[1].parameters, (std::vector{0, 1}));
}

/// The backward pass completes gradients in the reverse order of the parameters.
TEST_F(Passes, BiasesStayBeforeOtherVariables) {
  const Value x = images(), a = convolution("a", x), b = convolution("b", x);
  const std::vector results{max_pool(graph_, "pool", a, {.window = 2, .stride = 2}), b};
  defer_biases(graph_, results);
  EXPECT_EQ(graph_.nodes()[1].parameters, (std::vector{0, 1}));
}

TEST_F(Passes, BiasesStayBeforeAPoolingThatHasAsManyElements) {
  const Value z = convolution("conv", images());
  defer_biases(graph_, std::vector{max_pool(graph_, "pool", z, {.window = 3, .stride = 1})});
  EXPECT_EQ(graph_.nodes()[1].parameters, (std::vector{0, 1}));
}

TEST_F(Passes, ImagesGetAsManyChannelsAsTheirConvolutionIsFastestWith) {
  Graph graph(2, Arithmetic::bf16);
  const Value x = image_input(graph, "input", {.sample = {8, 8, 3}});
  const Value y = conv2d(graph, "conv", x, {.filters = 5, .kernel = 3});
  conv2d(graph, "next", y, {.filters = 5, .kernel = 3});
  pad_channels(graph);
  EXPECT_EQ(graph.shape(x), (Shape{2, 8, 8, 8}));
  EXPECT_EQ(graph.shape(y), (Shape{2, 8, 8, 5})) << "which wants a gradient";
}

TEST_F(Passes, ImagesOfAConvolutionOfPatchesKeepTheirChannels) {
  Graph graph(2, Arithmetic::bf16);
  const Value x = image_input(graph, "input", {.sample = {8, 8, 3}});
  conv2d(graph, "conv", x, {.filters = 5, .kernel = 4, .stride = 4, .padding = Padding::valid});
  pad_channels(graph);
  EXPECT_EQ(graph.shape(x), (Shape{2, 8, 8, 3}));
}

TEST_F(Passes, ImagesStayThatOthersReadOrThatNobodyPads) {
  Graph graph(2, Arithmetic::bf16);
  const Value x = image_input(graph, "input", {.sample = {8, 8, 3}});
  const Value normed = lrn(graph, "norm", x);
  conv2d(graph, "conv", normed, {.filters = 5, .kernel = 3});
  const Value twice = image_input(graph, "twice", {.sample = {8, 8, 3}});
  add(graph, "sum", conv2d(graph, "a", twice, {.filters = 3, .kernel = 3}), twice);
  pad_channels(graph);
  for (const Value value : {x, normed, twice}) EXPECT_EQ(graph.shape(value)[3], 3);
  pad_channels(graph_);
  EXPECT_EQ(graph_.shape(images())[3], 2) << "in float32";
}

TEST_F(Passes, AnOpIsPutBetweenAValueAndAllItsOtherReaders) {
  const Value x = images(), a = convolution("a", x);
  add(graph_, "sum", a, convolution("b", x));
  interpose(graph_, x, relu(graph_, "between", x));
  EXPECT_EQ(described(graph_), (std::vector<std::string>{"image_input input()", "relu between(input)",
                                                         "conv2d a(between)", "conv2d b(between)", "add sum(a, b)"}));
}

TEST_F(Passes, AConvolutionInBf16OutputsItsInputForTheOtherReaders) {
  Graph graph(2, Arithmetic::bf16);
  const auto convolution = [&](const std::string& name, Value x) {
    return conv2d(graph, name, x, {.filters = 2, .kernel = 3});
  };
  const Value z = convolution("conv", image_input(graph, "input", {.sample = {8, 8, 2}}));
  const Value a = convolution("a", z), b = convolution("b", z);
  add(graph, "sum", add(graph, "both", a, b), z);
  accumulate_input_gradients(graph, DeviceKind::cpu);
  insert_forks(graph, fork_op());
  EXPECT_EQ(described(graph), (std::vector<std::string>{"image_input input()", "conv2d conv(input)", "conv2d a(conv)",
                                                        "conv2d b(conv)", "add both(a, b)", "add sum(both, conv)"}));
  const std::vector<int>&of_a = graph.nodes()[2].outputs, &of_b = graph.nodes()[3].outputs;
  EXPECT_EQ(graph.nodes()[3].inputs, std::vector<int>{of_a.at(1)});
  EXPECT_EQ(graph.nodes()[4].inputs, (std::vector<int>{of_a.at(0), of_b.at(0)}));
  EXPECT_EQ(graph.nodes()[5].inputs[1], of_b.at(1));
  EXPECT_EQ(plan_tiling(graph, 2, 1).size(), graph.nodes().size()) << "ops that share memory are not tiled";
}

TEST_F(Passes, OnlyTheFirstReaderInBf16OnACpuAddsItsGradient) {
  const auto adds_none = [](Graph& graph, DeviceKind device) {
    accumulate_input_gradients(graph, device);
    return std::ranges::all_of(graph.nodes(), [](const Graph::Node& node) { return node.outputs.size() == 1; });
  };
  const auto build = [](Arithmetic arithmetic, bool reads_images, bool relu_reads_first) {
    Graph graph(2, arithmetic);
    const Value images = image_input(graph, "input", {.sample = {8, 8, 2}});
    const auto convolution = [&](const std::string& name, Value x) {
      return conv2d(graph, name, x, {.filters = 2, .kernel = 3});
    };
    const Value x = reads_images ? images : convolution("conv", images);
    const Value first = relu_reads_first ? relu(graph, "relu", x) : convolution("a", x);
    add(graph, "sum", first, convolution("b", x));
    return graph;
  };
  Graph wanted = build(Arithmetic::bf16, false, false), on_gpu = wanted, images = build(Arithmetic::bf16, true, false),
        float32 = build(Arithmetic::fp32, false, false), after_relu = build(Arithmetic::bf16, false, true);
  EXPECT_FALSE(adds_none(wanted, DeviceKind::cpu));
  EXPECT_TRUE(adds_none(on_gpu, DeviceKind::cuda));
  EXPECT_TRUE(adds_none(float32, DeviceKind::cpu));
  EXPECT_TRUE(adds_none(images, DeviceKind::cpu)) << "no gradient is wanted";
  EXPECT_TRUE(adds_none(after_relu, DeviceKind::cpu)) << "backward runs the convolution before the other reader";
}

TEST_F(Passes, AnOutputThatIsAnInputWantsAGradientIfTheInputDoes) {
  Graph graph(2, Arithmetic::bf16);
  const auto convolution = [&](const std::string& name, Value x) {
    return conv2d(graph, name, x, {.filters = 2, .kernel = 3, .biases = std::nullopt});
  };
  const Value z = convolution("conv", image_input(graph, "input", {.sample = {8, 8, 2}}));
  const Value a = convolution("a", z);
  add(graph, "sum", a, z);
  accumulate_input_gradients(graph, DeviceKind::cpu);
  const int copy = graph.nodes()[2].outputs.at(1);
  EXPECT_TRUE(graph.values()[copy].wants_gradient);
  graph.want_gradients_of({false, true});
  EXPECT_FALSE(graph.values()[copy].wants_gradient);
  EXPECT_TRUE(graph.values()[a.index].wants_gradient);
}

/// Returns a graph with a residual block. `reader_count`: number of ops that read the block's output.
Graph residual_block(int reader_count) {
  Graph graph(2);
  const auto convolution = [&](const std::string& name, Value x) {
    return conv2d(graph, name, x, {.filters = 2, .kernel = 3, .biases = std::nullopt});
  };
  const Value x = convolution("stem", image_input(graph, "input", {.sample = {8, 8, 2}}));
  const Value y = relu(graph, "relu", add(graph, "sum", batch_norm(graph, "norm", convolution("a", x)), x));
  Value last = convolution("b", y);
  for (int reader = 1; reader < reader_count; ++reader) last = add(graph, "next", last, y);
  fuse_additions(graph, DeviceKind::cpu, std::vector{last});
  fuse_activations(graph, std::vector{last});
  return graph;
}

TEST_F(Passes, ABatchNormWithTwoReadersReceivesBothGradients) {
  Graph graph = residual_block(2);
  sum_gradients_in_producers(graph, gradient_fork_op());
  insert_forks(graph, fork_op());
  EXPECT_EQ(described(graph),
            (std::vector<std::string>{"image_input input()", "conv2d stem(input)", "fork stem/fork(stem)",
                                      "conv2d a(stem/fork)", "batch_norm norm(a, stem/fork:1)",
                                      "gradient_fork norm/fork(norm, norm:1)", "conv2d b(norm/fork)",
                                      "add next(b, norm/fork:1)"}));
  const Graph::Node &norm = graph.nodes()[4], &fork = graph.nodes()[5];
  EXPECT_EQ(fork.inputs, norm.outputs);
  const std::vector<Lifetime> lives = tensor_lifetimes(graph, plan_tiling(graph, 0), true, {});
  const std::size_t count = graph.values().size();
  for (const std::size_t k : {0u, 1u}) {
    const int branch = fork.outputs.at(k), output = norm.outputs.at(k);
    EXPECT_EQ(lives[branch].same_as, norm.outputs[0]) << "both readers read y";
    EXPECT_EQ(lives[count + branch].same_as, static_cast<int>(count) + output) << "each has its own gradient";
  }
  EXPECT_EQ(lives[norm.outputs[1]].last, 5) << "the second output needs no memory until backward";
}

TEST_F(Passes, OtherNumbersOfReadersAndOtherOpsKeepTheirForks) {
  for (const int readers : {1, 3}) {
    Graph graph = residual_block(readers);
    const std::vector<std::string> before = described(graph);
    sum_gradients_in_producers(graph, gradient_fork_op());
    EXPECT_EQ(described(graph), before) << "the convolution's value has two readers, but no batch norm produces it";
  }
}

TEST_F(Passes, EachReaderOfAValueGetsItsOwnBehindAFork) {
  const Value z = convolution("conv", images());
  const Value a = convolution("a", z);
  add(graph_, "sum", a, add(graph_, "twice", z, z));
  insert_forks(graph_, fork_op());
  EXPECT_EQ(described(graph_), (std::vector<std::string>{"image_input input()", "conv2d conv(input)",
                                                         "fork conv/fork(conv)", "conv2d a(conv/fork)",
                                                         "add twice(conv/fork:1, conv/fork:2)", "add sum(a, twice)"}));
  for (const Graph::ValueInfo& value : graph_.values()) {
    if (value.wants_gradient) {
      EXPECT_LE(value.readers.size(), 1u) << value.name;
    }
  }
}

TEST_F(Passes, AValueWithoutAGradientNeedsNoFork) {
  const Value x = images();
  add(graph_, "sum", convolution("a", x), convolution("b", x));
  insert_forks(graph_, fork_op());
  EXPECT_EQ(graph_.nodes().size(), 4u);
}

}  // namespace
}  // namespace carillon::testing
