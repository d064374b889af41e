// What the tests of conv2d in bf16 share: the instruction sets that they run, roundings, and a bound of errors.
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

/// One instruction set for each implementation of the products, lowest first. If the processor has avx512, lower
/// instruction sets are omitted: they emulate the products of avx512.
inline std::vector<Isa> product_isas() {
  std::vector<Isa> isas = available_isas();
  if (isas.back() >= Isa::avx512) std::erase_if(isas, [](Isa isa) { return isa < Isa::avx512; });
  return isas;
}

}  // namespace carillon::testing
