// The lists that form op_cases (op_cases.h), and a function that several lists use.
#pragma once

#include <vector>

#include "tests/support/op_cases.h"

namespace carillon::testing {

// defined in op_cases_products.cpp
std::vector<OpCase> products();
std::vector<OpCase> tokens();
std::vector<OpCase> attentions();

// defined in op_cases_norms.cpp
std::vector<OpCase> pools();
std::vector<OpCase> norms();

// defined in op_cases_arithmetic.cpp
std::vector<OpCase> elementwise_ops();
std::vector<OpCase> shape_ops();
std::vector<OpCase> means_and_products();

// defined in op_cases_losses.cpp
std::vector<OpCase> losses();

/// Adds a target, which is the labels of the noise batch.
inline Value labels(OpHarness& harness) { return harness.graph().add_target({.type = DType::i32, .shape = {}}); }

}  // namespace carillon::testing
