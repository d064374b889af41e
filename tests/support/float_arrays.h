// Arrays of float or Bf16 for tests of kernels.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "src/core/bf16.h"

namespace carillon::testing {

template <typename T>
std::vector<float> floats(const std::vector<T>& values) {
  std::vector<float> result;
  for (const T value : values) result.push_back(to_float(value));
  return result;
}

template <typename T>
std::vector<T> rounded(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(stored_as<T>(value));
  return result;
}

/// Returns the Euclidean norm of a - b.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

/// Returns the root mean square of found - expected, divided by the root mean square of `expected`.
inline double relative_error(std::span<const float> found, std::span<const double> expected) {
  double error = 0.0, scale = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    scale += expected[i] * expected[i];
  }
  return std::sqrt(error / std::fmax(scale, 1e-30));
}

inline bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Returns `count` NaNs, the initial value of outputs: an element that the kernel does not write remains a NaN.
template <typename T>
std::vector<T> filled(std::size_t count) {
  return std::vector<T>(count, stored_as<T>(std::numeric_limits<float>::quiet_NaN()));
}

/// Expects each value to be within `tolerance` of the expected value; for expected values above 1, `tolerance` is
/// relative.
inline void expect_near(const std::vector<float>& found, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * std::fmax(1.0, std::fabs(expected[i]))) << "element " << i;
  }
}

}  // namespace carillon::testing
