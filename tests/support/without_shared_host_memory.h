// The ranks' communicator without shared host memory: it averages gradients, and every tower updates its own variables.
#pragma once

#include "tests/support/forwarding_communicator.h"

namespace carillon::testing {

class WithoutSharedHostMemory : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  SharedHostMemory* shared_host_memory() final { return nullptr; }
};

}  // namespace carillon::testing
