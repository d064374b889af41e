// Update factors: what the groups of OptimizerSettings make of each variable.
#pragma once

#include <vector>

#include "src/optim/update_rule.h"

namespace carillon {

/// [variables.size()]. Errors: as check_groups; usage (muon on a vector, or on nothing).
std::vector<UpdateFactors> update_factors(const OptimizerSettings& settings,
                                          const std::vector<ParameterSpec>& variables);

}  // namespace carillon
