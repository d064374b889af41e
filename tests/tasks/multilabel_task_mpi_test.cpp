// A multi-label task: target uint8 [n], loss binary cross-entropy, scores exact match and share of correct labels. All
// of these are defined by the test, not by the engine.
#include <cmath>

#include "tests/tasks/task_training.h"

namespace carillon::testing {
namespace {

/// loss = mean over batch and answers of max(z, 0) - z t + log(1 + exp(-|z|)), which is -log sigmoid(z) where t = 1,
/// and -log(1 - sigmoid(z)) where t = 0
class BinaryCrossEntropyOp final : public Op {
 public:
  explicit BinaryCrossEntropyOp(const OpTensors& tensors) : tensors_(tensors) {}

  void forward(Stream& /*stream*/) override {
    double sum = 0.0;
    for (std::size_t i = 0; i < logits().size(); ++i) {
      const double z = logits()[i];
      sum += std::max(z, 0.0) - z * answers()[i] + std::log1p(std::exp(-std::abs(z)));
    }
    tensors_.outputs[0].floats()[0] = static_cast<float>(sum / static_cast<double>(logits().size()));
  }
  void backward(Stream& /*stream*/) override {
    const std::span<float> gradient = tensors_.input_gradients[0].floats();
    const auto count = static_cast<float>(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = (1.0f / (1.0f + std::exp(-logits()[i])) - static_cast<float>(answers()[i])) / count;
    }
  }

 private:
  std::span<const float> logits() const { return tensors_.inputs[0].floats(); }
  const std::uint8_t* answers() const { return static_cast<const std::uint8_t*>(tensors_.inputs[1].data); }

  OpTensors tensors_;
};

class BinaryCrossEntropy final : public OpDefinition {
 public:
  std::string_view type() const override { return "binary_cross_entropy"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& /*context*/, const OpTensors& tensors) const override {
    return std::make_unique<BinaryCrossEntropyOp>(tensors);
  }
};

class RightAnswers final : public Metric {
 public:
  explicit RightAnswers(std::size_t answers) : answers_(answers) {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    ASSERT_EQ(targets.size(), outputs.size());
    for (std::size_t first = 0; first < outputs.size(); first += answers_) {
      std::size_t right = 0;
      for (std::size_t i = first; i < first + answers_; ++i)
        right += (outputs[i] > 0.0f) == (targets[i] != std::byte{0});
      right_ += right;
      exact_ += right == answers_;
      ++samples_;
    }
  }
  std::string contents() const override { return fmt::format("{} {} {}", right_, exact_, samples_); }
  void merge(std::string_view contents) override {
    std::size_t right = 0, exact = 0, samples = 0;
    std::istringstream(std::string(contents)) >> right >> exact >> samples;
    right_ += right;
    exact_ += exact;
    samples_ += samples;
  }
  std::vector<Score> scores() const override {
    const auto samples = static_cast<double>(samples_);
    return {{"exact_match", static_cast<double>(exact_) / samples},
            {"right_answers", static_cast<double>(right_) / samples / static_cast<double>(answers_)}};
  }
  std::string text() const override { return fmt::format("exact match = {:.3f}", scores()[0].value); }

 private:
  std::size_t answers_, right_ = 0, exact_ = 0, samples_ = 0;
};

Task multilabel_task(std::int64_t answers) {
  return {.target = {.type = DType::u8, .shape = {answers}},
          .outputs = answers,
          .loss =
              [](Graph& graph, const LossInputs& inputs) {
                return graph.add_op({.name = "binary_cross_entropy",
                                     .definition = std::make_shared<BinaryCrossEntropy>(),
                                     .inputs = {inputs.output, inputs.target}},
                                    Shape{});
              },
          .loss_name = "binary_cross_entropy",
          .describe_target = [](std::span<const std::byte>) { return std::string("answers"); },
          .make_metric = [answers] { return std::make_unique<RightAnswers>(static_cast<std::size_t>(answers)); },
          .score = "exact_match"};
}

TEST(MultilabelTask, TrainsAsInFloat64WithAndWithoutMicroBatches) {
  std::vector<std::uint8_t> targets;
  for (int i = 0; i < TaskTraining::record_count; ++i) {
    for (int j = 0; j < 4; ++j) targets.push_back((5 * i + 3 * j + i * j) % 3 == 0 ? 1 : 0);
  }
  TaskTraining training(multilabel_task(4), std::as_bytes(std::span(targets)));
  for (const std::int64_t micro_batch : {0, 1, 2}) {
    SCOPED_TRACE(micro_batch);
    expect_results(training.train(micro_batch), "multilabel_task.txt");
  }
}

}  // namespace
}  // namespace carillon::testing
