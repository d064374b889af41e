// numbers_train and numbers_eval share this file: records of 4 x 4 grey pixels and one float32, a linear network, and a
// regression with its own loss and metric.
#pragma once

#include <carillon/cli/program_spec.h>
#include <carillon/core/error.h>
#include <fmt/format.h>
#include <kernels/dense/dense.h>
#include <kernels/image_input/image_input.h>
#include <kernels/shared/mixing.h>

#include <algorithm>
#include <cmath>
#include <cstring>

/// Reads the bytes of a record: the pixels, then the target.
class NumberDecoder final : public carillon::RecordDecoder {
 public:
  explicit NumberDecoder(const carillon::ImageShape& image)
      : RecordDecoder(image, {.type = carillon::DType::f32, .shape = {1}}) {}
  void decode(std::span<const std::uint8_t> record, std::uint64_t /*position*/, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    if (record.size() != image.size() + target.size()) {
      carillon::fail(carillon::ExitCode::data, "has {} bytes", record.size());
    }
    std::ranges::copy(record.first(image.size()), image.begin());
    std::ranges::copy(std::as_bytes(record.subspan(image.size())), target.begin());
  }
};

inline std::unique_ptr<carillon::RecordDecoder> number_records(carillon::RecordSchema schema,
                                                               carillon::RecordUse /*use*/) {
  return std::make_unique<NumberDecoder>(schema.image_shape);
}

/// loss = mean over batch of (y - t)^2. inputs[0]: output y, inputs[1]: target t.
class SquaredErrorOp final : public carillon::Op {
 public:
  explicit SquaredErrorOp(const carillon::OpTensors& tensors) : tensors_(tensors) {}
  void forward(carillon::Stream& /*stream*/) override {
    const auto y = tensors_.inputs[0].floats(), t = tensors_.inputs[1].floats();
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += std::pow(double{y[i]} - t[i], 2);
    tensors_.outputs[0].floats()[0] = static_cast<float>(sum / static_cast<double>(y.size()));
  }
  void backward(carillon::Stream& /*stream*/) override {
    const auto y = tensors_.inputs[0].floats(), t = tensors_.inputs[1].floats();
    const auto dy = tensors_.input_gradients[0].floats();
    for (std::size_t i = 0; i < y.size(); ++i) dy[i] = 2.0f / static_cast<float>(y.size()) * (y[i] - t[i]);
  }

 private:
  carillon::OpTensors tensors_;
};

class SquaredError final : public carillon::OpDefinition {
 public:
  std::string_view type() const override { return "squared_error"; }
  carillon::BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<carillon::Op> instantiate(const carillon::OpContext& context,
                                            const carillon::OpTensors& tensors) const override {
    if (context.device->kind() != carillon::DeviceKind::cpu) {
      carillon::fail(carillon::ExitCode::usage, "squared_error requires --device cpu");
    }
    return std::make_unique<SquaredErrorOp>(tensors);
  }
};

/// score = mean of |y - t|
class AbsoluteError final : public carillon::Metric {
 public:
  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      float target = 0.0f;
      std::memcpy(&target, targets.data() + i * sizeof target, sizeof target);
      sums_.errors += std::abs(double{outputs[i]} - target);
    }
    sums_.count += static_cast<double>(outputs.size());
  }
  // contents() and merge() combine the sums of the ranks.
  std::string contents() const override { return {reinterpret_cast<const char*>(&sums_), sizeof sums_}; }
  void merge(std::string_view contents) override {
    Sums others;
    carillon::check(contents.size() == sizeof others, "contents of another metric");
    std::memcpy(&others, contents.data(), sizeof others);
    sums_.errors += others.errors;
    sums_.count += others.count;
  }
  std::vector<carillon::Score> scores() const override {
    return {{.name = "mean_absolute_error", .value = sums_.errors / sums_.count}};
  }
  std::string text() const override { return fmt::format("mean absolute error = {:.3f}", scores()[0].value); }

 private:
  struct Sums {
    double errors = 0.0, count = 0.0;
  };
  Sums sums_;
};

/// Regression of one number.
inline carillon::Task number_task(const carillon::RecordSchema& /*schema*/, const carillon::TaskOptions& /*options*/) {
  using namespace carillon;
  return {.target = {.type = DType::f32, .shape = {1}},
          .outputs = 1,
          .loss =
              [](Graph& graph, const LossInputs& inputs) {
                if (inputs.mixing.mixes()) fail(ExitCode::usage, "--mixup and --cutmix require a classification");
                return graph.add_op({.name = "squared_error",
                                     .definition = std::make_shared<SquaredError>(),
                                     .inputs = {inputs.output, inputs.target}},
                                    Shape{});
              },
          .loss_name = "mean_squared_error",
          .describe_target = [](std::span<const std::byte>) { return std::string("a number"); },
          .make_metric = [] { return std::make_unique<AbsoluteError>(); },
          .score = "mean_absolute_error",
          .higher_is_better = false};
}

/// A linear network: one number from all pixels.
inline carillon::Network linear_network(const carillon::NetworkSettings& settings) {
  using namespace carillon;
  return make_network("linear", settings, [settings](Graph& graph) {
    const Value x = image_input(graph, "input", {.sample = {4, 4, 1}, .scale = settings.pixel_scale});
    return dense(graph, "output", x, {.units = settings.outputs});
  });
}

/// The defaults of the options, which --help shows.
inline carillon::ProgramSpec numbers_program() {
  using namespace carillon;
  return {.data_set = "numbers",
          .networks = {{"linear", linear_network}},
          .defaults = {.data = {.files = {"data/numbers/train-*"},
                                .record_form = {.make_decoder = number_records,
                                                .schema = {.image_shape = {.height = 4, .width = 4, .channels = 1}}},
                                .batch_size = 50,
                                .pixel_scale = 1.0 / 256.0},
                       .optimizer = {.max_steps = 300,
                                     .update = {.moving_average_decay = 0.0},
                                     .schedule = {.kind = ScheduleKind::constant, .learning_rate = 0.1}},
                       .checkpoint = {.train_dir = "runs/numbers"}},
          .make_task = number_task};
}
