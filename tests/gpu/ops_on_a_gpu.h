// Compares an op's CUDA implementation with its CPU implementation, in every precision.
#pragma once

#include "tests/gpu/gpu_under_test.h"
#include "tests/support/op_results.h"

namespace carillon::testing {

class OpsOnAGpu : public GpuTest, public ::testing::WithParamInterface<OpCase> {
 protected:
  /// Expects that the output and the gradients equal the CPU's, and that on both devices non-finite values of an input
  /// "x" or "z" reach the output.
  static void expect_like_cpu(const OpCase& op);
};

}  // namespace carillon::testing
