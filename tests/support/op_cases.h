// Every op at small shapes, for tests that compare one implementation with another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/op_harness.h"

namespace carillon::testing {

struct OpCase {
  std::string name;
  std::int64_t batch = 1;
  std::size_t image_bytes = 1;
  bool integers = false;  ///< variables are -1, 0 or 1, so sums below 256 and their signs are exact in bfloat16
  float fp32_tolerance = 2e-6f, tf32_tolerance = 2e-3f, bf16_tolerance = 1.5e-2f;  ///< relative to the largest value
  bool drops = false;                                                              ///< some inputs reach no output
  bool is_bounded = false;  ///< an infinite input can give a finite output
  bool rounds_once = true;  ///< only the output is rounded to bfloat16, not values between ops
  std::function<Value(OpHarness&)> build;
};
std::vector<OpCase> op_cases();
inline std::ostream& operator<<(std::ostream& out, const OpCase& op) { return out << op.name; }

}  // namespace carillon::testing
