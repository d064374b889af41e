// PyTorch's results of some ops. tests/data/samples/make_pytorch_ops.py wrote them.
#pragma once

#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/float_arrays.h"

namespace carillon::testing {

/// Returns the array with the name `name`.
inline std::vector<float> of_pytorch(const std::string& name) {
  std::ifstream file(CARILLON_TEST_SAMPLES "/pytorch_ops.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != name) continue;
    std::vector<float> values;
    for (double value = 0.0; words >> value;) values.push_back(static_cast<float>(value));
    return values;
  }
  throw std::runtime_error("PyTorch's results have no " + name);
}

/// Expects each value to be within `tolerance` of PyTorch's array `name`; for expected values above 1, `tolerance` is
/// relative.
inline void expect_as_pytorch(std::span<const float> found, const std::string& name, double tolerance) {
  SCOPED_TRACE(name);
  expect_near({found.begin(), found.end()}, of_pytorch(name), tolerance);
}

}  // namespace carillon::testing
