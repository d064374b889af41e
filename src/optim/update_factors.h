// Computes each variable's UpdateFactors from its spec and the groups of OptimizerSettings.
#pragma once

#include <vector>

#include "src/optim/update_rule.h"

namespace carillon {

/// [variables.size()]. Errors: as check_variables.
std::vector<UpdateFactors> update_factors(const OptimizerSettings& settings,
                                          const std::vector<ParameterSpec>& variables);

}  // namespace carillon
