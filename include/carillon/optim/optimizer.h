// Optimizer: one pass over the flat arrays that applies L2, the update and the moving average (kernels/sgd).
#pragma once

#include <memory>

#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"

namespace carillon {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Enqueues the update of all parameters from their averaged gradients, which ends a step. Changes nothing where the
  /// averaged loss is not finite.
  virtual void apply(Stream& stream) = 0;
  /// sum over parameters of l2_factor * sum(w^2) / 2 for the present values; waits for the stream.
  virtual double l2_loss(Stream& stream) = 0;
};

/// Plain stochastic gradient descent: w <- w - learning_rate * (g + l2_factor * w).
/// `inputs` says, at each step, the learning rate and the averages' decay; it outlives the optimizer.
std::unique_ptr<Optimizer> make_sgd(const ParameterStore& parameters, Device& device, const StepInputs& inputs);

}  // namespace carillon
