// OpHarness: runs one op (or a few ops) on inputs that a test sets, and checks the gradients.
// On the CPU, returned float32 values and gradients refer to the memory of the ops. On a GPU or in bf16, returned
// values are copies; a copy is valid until the next call that copies the same array. Inputs are variables, so that a
// test can compare their gradients with finite differences. The objective is the sum over i of c_i * y_i, with fixed
// random c, added in double. If the output is a scalar, the objective is the output itself.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "src/device/cpu_device.h"
#include "src/graph/executable.h"

namespace carillon::testing {

/// Returns `count` pseudorandom values, uniform in [low, high). They depend only on `seed` and `count`.
std::vector<float> random_values(std::size_t count, std::uint64_t seed, float low = -1.0f, float high = 1.0f);

/// If `wanted`, adds a ReLU op that reads `x`, and returns the ReLU's output; otherwise returns `x`.
Value relu_if(bool wanted, Graph& graph, Value x);
/// Adds the activation of x as a separate op. A pass of the graph may fuse this op with another op later.
Value activated(ActivationKind kind, Graph& graph, Value x);

class OpHarness {
 public:
  explicit OpHarness(std::int64_t batch_size, int thread_count = 1);
  /// Runs the op on `device`, which must outlive the harness.
  OpHarness(std::int64_t batch_size, Device& device, Arithmetic arithmetic = Arithmetic::fp32);

  Graph& graph() { return graph_; }
  /// Returns the step inputs that ops on a CPU read. They are not used if you pass other step inputs to `finish`.
  StepInputs& step() { return step_; }
  /// Adds an input of shape [batch, sample...] that has a gradient.
  Value input(const std::string& name, const Shape& shape);
  /// Adds the target of the graph, on a CPU. `values` has one value per sample. The memory of `values` must outlive the
  /// harness; you may change its content.
  Value target(std::span<std::int32_t> values);
  Value target(const TargetSpec& spec, std::span<std::byte> values);
  /// Makes `output` the output of the graph, runs the passes that every network gets, and allocates the graph.
  /// Variables have random values until you set them. `inputs`: the step inputs from which the ops read their batch;
  /// `inputs` must outlive the harness.
  void finish(Value output);
  void finish(Value output, const StepInputs& inputs);

  void set(const std::string& variable, std::span<const float> values);
  std::span<float> values(const std::string& variable);
  std::span<const float> gradient(const std::string& variable);

  std::span<const float> forward();
  void backward();
  /// Runs an evaluation with the current variables and buffers, and returns its output.
  std::span<const float> evaluate();
  std::span<float> state(const std::string& name);
  /// Returns the gradient of an output of `count` elements, with which `backward` starts. If the output is a scalar, it
  /// is 1; otherwise it has the factors c of the objective.
  static std::vector<float> output_gradient(std::size_t count);

  /// Compares the gradients with central differences. Changes up to `samples` elements of each variable by `step`.
  void expect_gradients_match_differences(double step, double relative_tolerance, std::size_t samples = 60);

 private:
  double objective();
  int index_of(const std::string& variable) const;

  /// Returns the content of `tensor`. For float32 on a CPU, this is the memory of `tensor`. Otherwise it is copied to
  /// copies_[name].
  std::span<float> on_host(const Tensor& tensor, const std::string& name);

  std::unique_ptr<Device> own_device_;  ///< null if the device belongs to the caller
  Device& device_;
  std::map<std::string, std::vector<float>> copies_;
  Graph graph_;
  StepInputs step_;
  const StepInputs* inputs_ = nullptr;
  Value output_, objective_;
  std::shared_ptr<double> objective_value_ = std::make_shared<double>(0.0);
  std::optional<ParameterStore> parameters_;
  std::optional<BufferStore> buffers_;
  std::optional<Executable> executable_, evaluation_;
};

}  // namespace carillon::testing
