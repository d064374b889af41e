// Compares an op's CUDA implementation with its CPU implementation, in every precision.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/gpu/gpu_under_test.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {

struct OpCase {
  std::int64_t batch = 1;
  std::size_t image_bytes = 1;
  bool integers =
      false;  ///< variables are -1, 0 or 1: sums below 256 are exact in bfloat16, and so is the sign of each
  float fp32_tolerance = 2e-6f, bf16_tolerance = 1.5e-2f;  ///< of the largest value
  bool drops = false;                                      ///< some inputs reach no output
  std::function<Value(OpHarness&)> build;
};

/// The output, and every variable's gradient, by name.
using OpResults = std::map<std::string, std::vector<float>>;

inline std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Compares to `tolerance`, relative to the largest value of each tensor.
void expect_close(const OpResults& expected, const OpResults& got, float tolerance);

class OpsOnAGpu : public GpuTest {
 protected:
  /// Output and gradients equal the CPU's. On both devices, non-finite values of an input "x" or "z" reach the output.
  static void expect_like_cpu(const OpCase& op);
};

}  // namespace carillon::testing
