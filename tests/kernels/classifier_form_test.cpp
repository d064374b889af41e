// Which graphs a GPU computes in few kernels (classifier_form).
#include <gtest/gtest.h>

#include "kernels/dense/dense.h"
#include "kernels/dense_classifier/classifier_step.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/scale_input/scale_input.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "src/graph/passes.h"

namespace carillon::testing {
namespace {

/// A classifier that fits, except for what a test changes.
struct Classifier {
  std::int64_t batch = 100, hidden = 500, classes = 10;
  Shape image = {28, 28, 1};
  Arithmetic arithmetic = Arithmetic::fp32;
  std::optional<Initializer> biases1 = Initializer{}, biases2 = Initializer{};
  Value (*activation)(Graph&, const std::string&, Value) = relu;
  bool has_first_layer = true, drops_out = false, has_third_layer = false, has_relu_at_end = false;
  bool is_per_position = false;    ///< the first layer
  bool skips_first_layer = false;  ///< the second layer reads the input, and nothing reads the first layer
  SoftmaxCrossEntropyParams loss = {};

  std::optional<ClassifierForm> form() const {
    Graph graph(batch, arithmetic);
    const Value input = scale_input(graph, "input", {.sample = image, .scale = 0.25f});
    Value x = input;
    if (has_first_layer) {
      x = dense(graph, "layer1", x, {.units = hidden, .biases = biases1, .per_position = is_per_position});
    }
    if (activation != nullptr) x = activation(graph, "activation", x);
    if (drops_out) x = dropout(graph, "dropout", x, {.rate = 0.5f});
    if (has_third_layer) x = relu(graph, "relu", dense(graph, "layer", x, {.units = 500}));
    x = dense(graph, "layer2", skips_first_layer ? input : x, {.units = classes, .biases = biases2});
    if (has_relu_at_end) x = relu(graph, "end", x);
    const Value labels = graph.add_target({.type = DType::i32, .shape = {}});
    const Value total = softmax_cross_entropy(graph, "loss", x, labels, loss);
    fuse_activations(graph, std::vector{x, total});
    return classifier_form(graph, total);
  }
};

TEST(ClassifierForm, HasTheExtentsAndParametersOfTheGraph) {
  const std::optional<ClassifierForm> form = Classifier{}.form();
  ASSERT_TRUE(form);
  EXPECT_EQ(form->batch, 100);
  EXPECT_EQ(form->inputs, 784);
  EXPECT_EQ(form->hidden, 500);
  EXPECT_EQ(form->classes, 10);
  EXPECT_EQ(form->scale, 0.25f);
  EXPECT_EQ((std::vector{form->weights1, form->biases1, form->weights2, form->biases2}), (std::vector{0, 1, 2, 3}));
  EXPECT_TRUE(Classifier{.arithmetic = Arithmetic::tf32}.form());
}

TEST(ClassifierForm, EndsAtTheLimitsOfTheKernels) {
  EXPECT_TRUE((Classifier{.batch = 128, .hidden = 512, .classes = 16, .image = {32, 32, 1}}.form()));
  EXPECT_TRUE((Classifier{.hidden = 1024, .classes = 8}.form()));
  EXPECT_FALSE(Classifier{.batch = 129}.form());
  EXPECT_FALSE((Classifier{.image = {257, 4, 1}}.form()));
  EXPECT_TRUE((Classifier{.image = {6, 6, 1}}.form()));
  EXPECT_FALSE((Classifier{.image = {5, 5, 1}}.form()));
  EXPECT_FALSE((Classifier{.hidden = 100, .classes = 17}.form()));
  EXPECT_FALSE((Classifier{.hidden = 516, .classes = 16}.form()));
  EXPECT_FALSE((Classifier{.hidden = 1028, .classes = 2}.form()));
  EXPECT_FALSE(Classifier{.hidden = 502}.form());
}

TEST(ClassifierForm, IsThatOfNoOtherGraph) {
  EXPECT_FALSE(Classifier{.arithmetic = Arithmetic::bf16}.form());
  EXPECT_FALSE(Classifier{.biases1 = std::nullopt}.form());
  EXPECT_FALSE(Classifier{.biases2 = std::nullopt}.form());
  EXPECT_FALSE(Classifier{.activation = gelu}.form());
  EXPECT_FALSE(Classifier{.activation = nullptr}.form());
  EXPECT_FALSE((Classifier{.activation = nullptr, .has_first_layer = false}.form()));
  EXPECT_FALSE(Classifier{.has_relu_at_end = true}.form());
  EXPECT_FALSE(Classifier{.drops_out = true}.form());
  EXPECT_FALSE(Classifier{.has_third_layer = true}.form());
  EXPECT_FALSE(Classifier{.skips_first_layer = true}.form());
  EXPECT_TRUE((Classifier{.image = {1, 1, 784}}.form()));
  EXPECT_FALSE((Classifier{.image = {1, 1, 784}, .is_per_position = true}.form()));
}

TEST(ClassifierForm, IsThatOfThePlainLossAlone) {
  EXPECT_FALSE((Classifier{.loss = {.label_smoothing = 0.1f}}.form()));
  EXPECT_FALSE((Classifier{.loss = {.mixing = {.mixup = 0.2, .height = 28, .width = 28}}}.form()));
  EXPECT_FALSE((Classifier{.loss = {.class_weights = std::vector<float>(10, 1.0f)}}.form()));
  EXPECT_FALSE((Classifier{.loss = {.focal_gamma = 2.0f}}.form()));
}

}  // namespace
}  // namespace carillon::testing
