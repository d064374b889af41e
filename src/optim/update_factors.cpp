#include "src/optim/update_factors.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/optim/parameter_group.h"

namespace carillon {
namespace {

bool matches(const ParameterGroup& group, const ParameterSpec& variable) {
  return fnmatch(group.pattern.c_str(), variable.name.c_str(), FNM_NOESCAPE) == 0;
}

UpdateFactors factors_of(const ParameterSpec& variable, const OptimizerSettings& settings) {
  const auto group = std::ranges::find_if(settings.groups, [&](const auto& g) { return matches(g, variable); });
  const ParameterGroup own = group == settings.groups.end() ? ParameterGroup{} : *group;
  return {.l2 = variable.l2_factor,
          .rate = static_cast<float>(own.rate),
          .weight_decay = static_cast<float>(own.decay.value_or(settings.weight_decay)),
          .has_ratio = variable.shape.rank() > 1,
          .first_step = own.frozen_until,
          .end_step = own.frozen_after};
}

}  // namespace

void check_groups(const std::vector<ParameterGroup>& groups, const std::vector<ParameterSpec>& variables) {
  for (const ParameterGroup& group : groups) {
    if (std::ranges::any_of(variables, [&](const ParameterSpec& variable) { return matches(group, variable); })) {
      continue;
    }
    std::vector<std::string_view> names;
    for (const ParameterSpec& variable : variables) names.push_back(variable.name);
    fail(ExitCode::usage, "--group: '{}' matches no variable; there are: {}", group.pattern, fmt::join(names, ", "));
  }
}

std::vector<UpdateFactors> update_factors(const OptimizerSettings& settings,
                                          const std::vector<ParameterSpec>& variables) {
  check_groups(settings.groups, variables);
  std::vector<UpdateFactors> factors;
  for (const ParameterSpec& variable : variables) factors.push_back(factors_of(variable, settings));
  return factors;
}

}  // namespace carillon
