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

/// The output, and the gradient of each variable. The names are "gradient of NAME".
using OpResults = std::map<std::string, std::vector<float>>;

inline std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Rounds the variables to values that bfloat16 can hold, so that no device rounds them, and then returns the results
/// of `op`.
OpResults results_of(const OpCase& op, OpHarness& harness);

/// Expects that two results differ by at most `tolerance`, relative to the largest value of each tensor.
void expect_close(const OpResults& expected, const OpResults& got, float tolerance);

/// Sets one value of the input "x" or "z" to `bad` (or all values, if op.drops), and expects that the output then has a
/// non-finite value. Does nothing for an op case that reads only the images of the batch.
void expect_reported(const OpCase& op, OpHarness& harness, float bad);

/// Runs an op case on a CPU with a batch of noise.
class OpOnCpu {
 public:
  OpOnCpu(const OpCase& op, Device& device, Arithmetic arithmetic = Arithmetic::fp32);
  OpHarness& harness() { return harness_; }

 private:
  NoiseBatch samples_;  // must outlive harness_: the ops read the samples here
  std::vector<std::int32_t> labels_;
  StepInputs inputs_;
  OpHarness harness_;
};

}  // namespace carillon::testing
