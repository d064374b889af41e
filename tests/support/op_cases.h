// Every op with small shapes, for tests that compare two implementations of an op.
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
  bool integers = false;  ///< all variables are -1, 0 or 1. Sums with a magnitude below 256, and therefore their signs,
                          ///< are then exact in bfloat16
  float fp32_tolerance = 2e-6f, tf32_tolerance = 2e-3f, bf16_tolerance = 1.5e-2f;  ///< tolerance relative to the
                                                                                   ///< largest value
  bool drops = false;                                                              ///< true: some elements do not
                                                                                   ///< influence the output
  bool is_bounded = false;  ///< true: an infinite input may give a finite output
  bool rounds_once = true;  ///< true: only the output is rounded to bfloat16, not the values between ops
  std::function<Value(OpHarness&)> build;
};
std::vector<OpCase> op_cases();
inline std::ostream& operator<<(std::ostream& out, const OpCase& op) { return out << op.name; }

}  // namespace carillon::testing
