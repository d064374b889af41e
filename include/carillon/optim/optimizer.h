// Optimizer: one pass over the flat arrays that applies L2, the update and the moving average (kernels/sgd).
#pragma once

#include <memory>

#include "carillon/graph/parameters.h"

namespace carillon {

struct UpdateStep {
  double learning_rate = 0.0;
  double average_decay = 0.0;  ///< already warmed up (optim/moving_average.h)
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Enqueues the update of all parameters from their averaged gradients.
  virtual void apply(const UpdateStep& step, Stream& stream) = 0;
  /// sum over parameters of l2_factor * sum(w^2) / 2 for the present values; waits for the stream.
  virtual double l2_loss(Stream& stream) = 0;
};

/// Plain stochastic gradient descent: w <- w - learning_rate * (g + l2_factor * w).
std::unique_ptr<Optimizer> make_sgd(ParameterStore& parameters, Device& device);

}  // namespace carillon
