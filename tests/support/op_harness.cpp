#include "tests/support/op_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "carillon/core/philox.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/gradient_ops.h"
#include "src/core/bf16.h"
#include "src/graph/passes.h"

namespace carillon::testing {
namespace {

/// Writes `values` to a tensor of f32 or bf16 on `device`.
void upload(Device& device, std::span<const float> values, const Tensor& tensor) {
  if (tensor.type == DType::f32) return upload_floats(device, values, tensor);
  std::vector<Bf16> stored(values.size());
  std::ranges::transform(values, stored.begin(), to_bf16);
  device.upload(stored.data(), tensor.data, tensor.bytes());
}

/// An op without inputs that outputs its variable. The tested op reads this output as its input x, so the gradient of x
/// is the gradient of a variable.
class VariableInput final : public OpDefinition {
 public:
  std::string_view type() const override { return "variable_input"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    struct Copy final : Op {
      Copy(Device& of, const OpTensors& given) : device(of), t(given) {}
      void forward(Stream&) override { upload(device, download_floats(device, t.parameters[0]), t.outputs[0]); }
      void backward(Stream&) override {
        upload(device, download_floats(device, t.output_gradients[0]), t.parameter_gradients[0]);
      }
      Device& device;
      OpTensors t;
    };
    return std::make_unique<Copy>(*context.device, tensors);
  }
};

/// The objective: an op that writes the sum of weights[i] * y[i] to `result`, added in double.
class WeightedSum final : public OpDefinition {
 public:
  WeightedSum(std::vector<float> weights, std::shared_ptr<double> result)
      : weights_(std::move(weights)), result_(std::move(result)) {}
  std::string_view type() const override { return "weighted_sum"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    struct Sum final : Op {
      Sum(Device& of, const OpTensors& given, const std::vector<float>& w, double* r)
          : device(of), t(given), weights(w), result(r) {}
      void forward(Stream&) override {
        const std::vector<float> y = download_floats(device, t.inputs[0]);
        *result = 0.0;
        for (std::size_t i = 0; i < weights.size(); ++i) *result += static_cast<double>(weights[i]) * y[i];
      }
      void backward(Stream&) override {
        if (t.input_gradients[0]) upload(device, weights, t.input_gradients[0]);
      }
      Device& device;
      OpTensors t;
      const std::vector<float>& weights;
      double* result;
    };
    return std::make_unique<Sum>(*context.device, tensors, weights_, result_.get());
  }

 private:
  std::vector<float> weights_;
  std::shared_ptr<double> result_;
};

}  // namespace

std::vector<float> random_values(std::size_t count, std::uint64_t seed, float low, float high) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto random = philox4x32(seed, {{static_cast<std::uint32_t>(i), 0, 0, 0}});
    values[i] = low + (high - low) * uniform_float(random.word[0]);
  }
  return values;
}

Value relu_if(bool wanted, Graph& graph, Value x) { return wanted ? relu(graph, "relu", x) : x; }

Value activated(ActivationKind kind, Graph& graph, Value x) {
  switch (kind) {
    case ActivationKind::none:
      return x;
    case ActivationKind::relu:
      return relu(graph, "relu", x);
    case ActivationKind::gelu:
      return gelu(graph, "gelu", x);
    case ActivationKind::silu:
      return silu(graph, "silu", x);
  }
  return x;
}

OpHarness::OpHarness(std::int64_t batch_size, Device& device, Arithmetic arithmetic)
    : device_(device), graph_(batch_size, arithmetic) {}

OpHarness::OpHarness(std::int64_t batch_size, int thread_count)
    : own_device_(std::make_unique<CpuDevice>(thread_count)), device_(*own_device_), graph_(batch_size) {}

Value OpHarness::input(const std::string& name, const Shape& shape) {
  const int parameter = graph_.add_parameter({name, shape, {}, 0.0f});
  return graph_.add_op(
      {.name = name, .definition = std::make_shared<VariableInput>(), .inputs = {}, .parameters = {parameter}}, shape);
}

Value OpHarness::target(std::span<std::int32_t> values) {
  return target({.type = DType::i32, .shape = {}}, std::as_writable_bytes(values));
}

Value OpHarness::target(const TargetSpec& spec, std::span<std::byte> values) {
  step_.targets = values.data();
  return graph_.add_target(spec);
}

void OpHarness::finish(Value output) { finish(output, step_); }

void OpHarness::finish(Value output, const StepInputs& inputs) {
  inputs_ = &inputs;
  output_ = output;
  const std::size_t count = static_cast<std::size_t>(graph_.shape(output).element_count());
  objective_ = graph_.add_op({.name = "objective",
                              .definition = std::make_shared<WeightedSum>(output_gradient(count), objective_value_),
                              .inputs = {output}},
                             Shape{});
  const std::vector<Value> results{output_, objective_};
  fuse_additions(graph_, device_.kind(), results);
  fuse_activations(graph_, results);
  if (device_.kind() == DeviceKind::cuda) fit_to_gpu(graph_, results);
  give_values_one_reader(graph_, device_.kind(), gradient_ops());
  const ParameterLayout layout(graph_.parameters());
  parameters_.emplace(graph_.parameters(), device_,
                      ParameterMemory{.gradients = device_.allocate(gradient_bytes(layout))});
  buffers_.emplace(graph_.buffers(), device_);
  executable_.emplace(graph_, ExecutableContext{device_, *parameters_, *buffers_, inputs}, true, results);
  for (std::size_t i = 0; i < graph_.parameters().size(); ++i) {
    const auto& spec = graph_.parameters()[i];
    set(spec.name, random_values(static_cast<std::size_t>(spec.shape.element_count()), 100 + i));
  }
}

int OpHarness::index_of(const std::string& variable) const {
  for (std::size_t i = 0; i < graph_.parameters().size(); ++i) {
    if (graph_.parameters()[i].name == variable) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no variable " << variable;
  return 0;
}

void OpHarness::set(const std::string& variable, std::span<const float> given) {
  upload_floats(device_, given, parameters_->value(index_of(variable)));
}

std::span<float> OpHarness::on_host(const Tensor& tensor, const std::string& name) {
  if (device_.kind() == DeviceKind::cpu && tensor.type == DType::f32) return tensor.floats();
  return copies_[name] = download_floats(device_, tensor);
}

std::span<float> OpHarness::values(const std::string& variable) {
  return on_host(parameters_->value(index_of(variable)), variable);
}

std::span<const float> OpHarness::gradient(const std::string& variable) {
  return on_host(parameters_->gradient(index_of(variable)), "gradient of " + variable);
}

std::span<const float> OpHarness::forward() {
  executable_->forward(device_.stream());
  return on_host(executable_->tensor(output_), "output");
}

void OpHarness::backward() {
  executable_->backward(device_.stream(), [](int) {});
}

std::span<const float> OpHarness::evaluate() {
  if (!evaluation_) {
    evaluation_.emplace(graph_, ExecutableContext{device_, *parameters_, *buffers_, *inputs_}, false,
                        std::vector{output_});
  }
  evaluation_->forward(device_.stream());
  return on_host(evaluation_->tensor(output_), "output of the evaluation");
}

std::span<float> OpHarness::state(const std::string& name) {
  const std::vector<BufferSpec>& specs = graph_.buffers();
  const auto found = std::ranges::find(specs, name, &BufferSpec::name);
  if (found == specs.end()) throw std::invalid_argument("no state " + name);
  return on_host(buffers_->tensor(static_cast<int>(found - specs.begin())), name);
}

std::vector<float> OpHarness::output_gradient(std::size_t count) {
  return count == 1 ? std::vector<float>{1.0f} : random_values(count, 77);
}

double OpHarness::objective() {
  forward();
  return *objective_value_;
}

void OpHarness::expect_gradients_match_differences(double step, double relative_tolerance, std::size_t samples) {
  forward();
  backward();
  for (const ParameterSpec& spec : graph_.parameters()) {
    const std::vector<float> gradient_values(gradient(spec.name).begin(), gradient(spec.name).end());
    double scale = 0.0;
    for (const float g : gradient_values) scale = std::max(scale, std::abs(static_cast<double>(g)));
    const std::size_t stride = std::max<std::size_t>(1, gradient_values.size() / samples);
    for (std::size_t i = 0; i < gradient_values.size(); i += stride) {
      std::vector<float> changed(values(spec.name).begin(), values(spec.name).end());
      const float kept = changed[i];
      const float above_value = kept + static_cast<float>(step), below_value = kept - static_cast<float>(step);
      const auto objective_at = [&](float value) {
        changed[i] = value;
        set(spec.name, changed);
        return objective();
      };
      const double above = objective_at(above_value), below = objective_at(below_value);
      changed[i] = kept;
      set(spec.name, changed);
      const double difference = (above - below) / (static_cast<double>(above_value) - below_value);
      EXPECT_NEAR(gradient_values[i], difference, relative_tolerance * scale) << spec.name << " element " << i;
    }
  }
}

}  // namespace carillon::testing
