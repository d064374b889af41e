// for_each_variable_in: the variables in a part of the flat arrays.
#pragma once

#include <algorithm>
#include <cstddef>

#include "carillon/graph/parameters.h"

namespace carillon {

/// Calls body(variable, begin, end) for the elements of each variable in [first, last) of the flat arrays, in ascending
/// order.
template <typename Body>
void for_each_variable_in(const ParameterLayout& layout, std::size_t first, std::size_t last, const Body& body) {
  const auto ends_before = [&](int variable) { return layout.offset(variable) + layout.count(variable) <= first; };
  auto variable = std::ranges::partition_point(layout.order(), ends_before);
  for (; variable != layout.order().end() && layout.offset(*variable) < last; ++variable) {
    const std::size_t end = layout.offset(*variable) + layout.count(*variable);
    body(*variable, std::max(first, layout.offset(*variable)), std::min(last, end));
  }
}

}  // namespace carillon
