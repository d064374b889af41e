// Fixture that compares an op's CUDA implementation with its CPU implementation, in every precision.
#pragma once

#include "tests/gpu/gpu_under_test.h"
#include "tests/support/op_results.h"

namespace carillon::testing {

class OpsOnAGpu : public GpuTest, public ::testing::WithParamInterface<OpCase> {
 protected:
  /// Expects that the output and the gradients on the GPU equal the output and the gradients on the CPU. Expects, on
  /// both devices, that a non-finite value of an input "x" or "z" reaches the output.
  static void expect_like_cpu(const OpCase& op);
};

}  // namespace carillon::testing
