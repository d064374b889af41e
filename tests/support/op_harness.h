// OpHarness: runs one op (or a few ops) on inputs that a test sets, and checks the gradients.
// On the CPU, returned float32 values and gradients refer to the memory of the ops. All others are copies, which are
// valid until the next call that returns a copy.
// Inputs are variables, so that they have gradients to compare with finite differences. The objective is the sum over i
// of c_i * y_i with fixed random c, in double precision. For a scalar output, the objective is the output itself.
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

/// `count` reproducible values, uniform in [low, high).
std::vector<float> random_values(std::size_t count, std::uint64_t seed, float low = -1.0f, float high = 1.0f);

/// Adds a ReLU to `x` if `wanted`; otherwise returns `x`.
Value relu_if(bool wanted, Graph& graph, Value x);
/// Applies the activation to x, as a separate op, until a pass fuses it.
Value activated(ActivationKind kind, Graph& graph, Value x);

class OpHarness {
 public:
  explicit OpHarness(std::int64_t batch_size, int thread_count = 1);
  /// Runs the op on `device`, which must outlive the harness.
  OpHarness(std::int64_t batch_size, Device& device, Arithmetic arithmetic = Arithmetic::fp32);

  Graph& graph() { return graph_; }
  /// The step inputs that ops on a CPU read, unless you pass others to `finish`.
  StepInputs& step() { return step_; }
  /// A differentiable input [batch, sample...].
  Value input(const std::string& name, const Shape& shape);
  /// Adds the graph's target on a CPU. `values` has a value for each sample. It must outlive the harness, and may
  /// change.
  Value target(std::span<std::int32_t> values);
  Value target(const TargetSpec& spec, std::span<std::byte> values);
  /// Makes `output` the output of the graph, runs the passes of every network, and allocates the graph. Variables have
  /// random values until you set them. `inputs`: the step inputs from which the ops read their batch; must outlive the
  /// harness.
  void finish(Value output);
  void finish(Value output, const StepInputs& inputs);

  void set(const std::string& variable, std::span<const float> values);
  std::span<float> values(const std::string& variable);
  std::span<const float> gradient(const std::string& variable);

  std::span<const float> forward();
  void backward();
  /// The output of an evaluation with the current variables and buffers.
  std::span<const float> evaluate();
  std::span<float> state(const std::string& name);
  /// The gradient of the output at the start of `backward`, for `count` elements: the factors c of the objective.
  static std::vector<float> output_gradient(std::size_t count);

  /// Compares gradients with central differences of size `step`, on up to `samples` elements of every variable.
  void expect_gradients_match_differences(double step, double relative_tolerance, std::size_t samples = 60);

 private:
  double objective();
  int index_of(const std::string& variable) const;

  /// The content of `tensor`, copied to the host.
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
