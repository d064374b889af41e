// The parts that all tests of conv2d in bf16 use: the instruction sets that they run, functions that round, and a bound
// of errors.
#pragma once

#include <span>
#include <vector>

#include "carillon/device/isa.h"
#include "src/core/bf16.h"
#include "tests/support/isa_name.h"

namespace carillon::testing {

inline constexpr double bf16_sum_error = 1e-6;  ///< largest relative error of float32 sums of bf16 products

template <typename Number>
std::vector<Number> rounded_to_bf16(std::span<const Number> values) {
  std::vector<Number> result;
  for (const Number value : values) result.push_back(to_float(to_bf16(static_cast<float>(value))));
  return result;
}

/// Returns one instruction set for each implementation of the products, the lowest first. If the processor has avx512,
/// omits lower instruction sets, because they emulate the products of avx512.
inline std::vector<Isa> product_isas() {
  std::vector<Isa> isas = available_isas();
  if (isas.back() >= Isa::avx512) std::erase_if(isas, [](Isa isa) { return isa < Isa::avx512; });
  return isas;
}

}  // namespace carillon::testing
