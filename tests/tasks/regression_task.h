// A regression task. The target is float32 [k], the loss is the mean squared error, and the score is the mean absolute
// error. This file defines target, loss and score, as a user's program would; src/ does not contain them.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/tasks/task.h"

namespace carillon::testing {

/// The loss: the mean of (y - t)^2 over the batch and the k elements.
class MeanSquaredErrorOp final : public Op {
 public:
  explicit MeanSquaredErrorOp(const OpTensors& tensors) : tensors_(tensors) {}

  void forward(Stream& /*stream*/) override {
    double sum = 0.0;
    for (std::size_t i = 0; i < outputs().size(); ++i) sum += std::pow(double{outputs()[i]} - targets()[i], 2);
    tensors_.outputs[0].floats()[0] = static_cast<float>(sum / static_cast<double>(outputs().size()));
  }
  void backward(Stream& /*stream*/) override {
    const float factor = 2.0f / static_cast<float>(outputs().size());
    const std::span<float> gradient = tensors_.input_gradients[0].floats();
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = factor * (outputs()[i] - targets()[i]);
  }

 private:
  std::span<const float> outputs() const { return tensors_.inputs[0].floats(); }
  std::span<const float> targets() const { return tensors_.inputs[1].floats(); }

  OpTensors tensors_;
};

class MeanSquaredError final : public OpDefinition {
 public:
  std::string_view type() const override { return "mean_squared_error"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& /*context*/, const OpTensors& tensors) const override {
    return std::make_unique<MeanSquaredErrorOp>(tensors);
  }
};

class MeanAbsoluteError final : public Metric {
 public:
  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    std::vector<float> numbers(outputs.size());
    check(targets.size() == outputs.size_bytes(), "one number for each output");
    std::memcpy(numbers.data(), targets.data(), targets.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) sum_ += std::abs(double{outputs[i]} - numbers[i]);
    count_ += outputs.size();
  }
  std::string contents() const override { return fmt::format("{} {}", sum_, count_); }
  void merge(std::string_view contents) override {
    double sum = 0.0;
    std::size_t count = 0;
    std::istringstream(std::string(contents)) >> sum >> count;
    sum_ += sum;
    count_ += count;
  }
  std::vector<Score> scores() const override { return {{"mean_absolute_error", sum_ / static_cast<double>(count_)}}; }
  std::string text() const override { return fmt::format("mean absolute error = {:.3f}", scores()[0].value); }

 private:
  double sum_ = 0.0;
  std::size_t count_ = 0;
};

inline Task regression_task(std::int64_t numbers) {
  return {.target = {.type = DType::f32, .shape = {numbers}},
          .outputs = numbers,
          .loss =
              [](Graph& graph, const LossInputs& inputs) {
                return graph.add_op({.name = "mean_squared_error",
                                     .definition = std::make_shared<MeanSquaredError>(),
                                     .inputs = {inputs.output, inputs.target}},
                                    Shape{});
              },
          .loss_name = "mean_squared_error",
          .describe_target = [](std::span<const std::byte>) { return std::string("numbers"); },
          .make_metric = [] { return std::make_unique<MeanAbsoluteError>(); },
          .score = "mean_absolute_error",
          .higher_is_better = false};
}

}  // namespace carillon::testing
