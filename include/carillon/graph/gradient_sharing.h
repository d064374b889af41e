// GradientSharing: what an op's definition may state about its gradients on a GPU, for the pass share_gradients.
#pragma once

#include <memory>

#include "carillon/graph/op.h"

namespace carillon {

/// A second base class of an OpDefinition. The pass finds it by dynamic_cast.
class GradientSharing {
 public:
  virtual ~GradientSharing() = default;
  /// The definition of this op with the gradients of both inputs in the memory of the gradient of output 0. So backward
  /// copies nothing. Only the pass makes such an op: OpDefinition::gradient_shares_output forbids it in general. Null:
  /// the op cannot do this.
  virtual std::shared_ptr<const OpDefinition> sharing_gradients() const { return nullptr; }
  /// Whether backward leaves the gradient of output 0 unchanged. No input gradient then shares memory with it.
  virtual bool keeps_output_gradient() const { return false; }
};

}  // namespace carillon
