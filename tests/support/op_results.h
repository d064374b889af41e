// The results of an op case (op_cases.h), and functions that compare them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/support/noise_batch.h"
#include "tests/support/op_cases.h"

namespace carillon::testing {

/// The output and the gradients of all variables, by name.
using OpResults = std::map<std::string, std::vector<float>>;

inline std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

/// The results for variables with values that bfloat16 can represent, so that no device rounds them.
OpResults results_of(const OpCase& op, OpHarness& harness);

/// Checks that results differ by at most `tolerance`, relative to the largest value of each tensor.
void expect_close(const OpResults& expected, const OpResults& got, float tolerance);

/// Checks that the output has a non-finite value if one value, or every value, of the input "x" or "z" is `bad`. An op
/// case that reads only the images of the batch has no such input.
void expect_reported(const OpCase& op, OpHarness& harness, float bad);

/// Runs an op case on a CPU, with a batch of noise.
class OpOnCpu {
 public:
  OpOnCpu(const OpCase& op, Device& device, Arithmetic arithmetic = Arithmetic::fp32);
  OpHarness& harness() { return harness_; }

 private:
  NoiseBatch samples_;  // the ops read the samples in place
  std::vector<std::int32_t> labels_;
  StepInputs inputs_;
  OpHarness harness_;
};

}  // namespace carillon::testing
