// A communicator that has no shared host memory. With it, training averages the gradients by allreduce, and every tower
// updates its own variables.
#pragma once

#include "tests/support/forwarding_communicator.h"

namespace carillon::testing {

class WithoutSharedHostMemory : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  SharedHostMemory* shared_host_memory() final { return nullptr; }
};

/// Changes the first value of every broadcast, on the last rank only.
class CorruptingCommunicator final : public WithoutSharedHostMemory {
 public:
  using WithoutSharedHostMemory::WithoutSharedHostMemory;
  void broadcast(std::span<float> values, int root) override {
    WithoutSharedHostMemory::broadcast(values, root);
    if (rank() == size() - 1 && size() > 1) values.front() += 0.25f;
  }
};

}  // namespace carillon::testing
