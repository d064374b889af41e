// ReplicatedUpdate: the UpdateStrategy in which every rank has all slots and updates all variables. It supports CPUs
// and GPUs, and any update rule.
//
//   gradient_complete   starts the all-reduce of each bucket that is complete, during the backward pass
//   enqueue_means       waits for all buckets
//   enqueue_update      Optimizer::apply
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "src/optim/optimizer.h"
#include "src/step/gradients/reducer.h"
#include "src/step/update/update_strategy.h"

namespace carillon {

/// As make_optimizer.
using MakeOptimizer =
    std::function<std::unique_ptr<Optimizer>(const OptimizerSettings& settings, const ParameterStore& parameters,
                                             Device& device, const StepInputs& inputs, Arithmetic arithmetic)>;

class ReplicatedUpdate final : public UpdateStrategy {
 public:
  explicit ReplicatedUpdate(const UpdateContext& context, const MakeOptimizer& make = make_optimizer);

  const ParameterStore& parameters() const override { return parameters_; }
  std::span<float> slot(int slot) const override { return parameters_.slot(slot); }
  bool replicates_slots() const override { return true; }
  void broadcast_from_first() override;

  void begin_step(MeanGradients gradients) override { gradients_ = gradients; }
  void acquire(Stream& stream) override { reducer_.begin(stream); }
  void gradient_complete(int parameter, Stream& stream) override;
  void enqueue_means() override;
  const StepEnd& step_end() const override { return end_; }
  void enqueue_update() override;
  std::optional<double> gradient_norm() const override;
  bool holds_whole_step() const override { return !is_updating_; }

 private:
  Device& device_;
  Communicator& communicator_;
  ParameterStore parameters_;
  Reducer reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  StepEnd end_;
  MeanGradients gradients_ = MeanGradients::readable;
  bool clips_;
  UpdateGate* gate_;
  bool is_updating_ = false;
};

}  // namespace carillon
