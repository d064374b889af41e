// Every op at small shapes, for tests that compare one implementation with another.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {

struct OpCase {
  std::string name;
  std::int64_t batch = 1;
  std::size_t image_bytes = 1;
  bool integers = false;  ///< variables are -1, 0 or 1: sums below 256 are exact in bfloat16, and so are their signs
  float fp32_tolerance = 2e-6f, bf16_tolerance = 1.5e-2f;  ///< of the largest value
  bool drops = false;                                      ///< some inputs reach no output
  bool rounds_once = true;                                 ///< bfloat16 values lie between ops only in the output
  std::function<Value(OpHarness&)> build;
};
std::vector<OpCase> op_cases();
inline std::ostream& operator<<(std::ostream& out, const OpCase& op) { return out << op.name; }

/// The output, and every variable's gradient, by name.
using OpResults = std::map<std::string, std::vector<float>>;

inline std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Results for variables with values that bfloat16 holds, so that no device rounds them.
OpResults results_of(const OpCase& op, OpHarness& harness);

/// Compares to `tolerance`, relative to the largest value of each tensor.
void expect_close(const OpResults& expected, const OpResults& got, float tolerance);

/// If a value of the input "x" or "z" is `bad`, or all are, the output has a value that is not finite. An op of the
/// batch's images alone has no such input.
void expect_reported(const OpCase& op, OpHarness& harness, float bad);

/// The op on a CPU, with a batch of noise.
class OpOnCpu {
 public:
  OpOnCpu(const OpCase& op, Device& device, Arithmetic arithmetic = Arithmetic::fp32);
  OpHarness& harness() { return harness_; }

 private:
  NoiseBatch samples_;  // which the ops read in place
  std::vector<std::int32_t> labels_;
  StepInputs inputs_;
  OpHarness harness_;
};

}  // namespace carillon::testing
