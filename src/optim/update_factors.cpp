#include "src/optim/update_factors.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "carillon/core/error.h"
#include "carillon/optim/parameter_group.h"

namespace carillon {
namespace {

bool matches(const ParameterGroup& group, const ParameterSpec& variable) {
  return fnmatch(group.pattern.c_str(), variable.name.c_str(), FNM_NOESCAPE) == 0;
}

/// Rules with norms leave vectors (biases, a norm's scale and shift) without ratio and decay, as their recipes do.
float default_decay(const OptimizerSettings& settings, bool is_vector) {
  return is_vector && !updates_elements_apart(settings) ? 0.0f : static_cast<float>(settings.weight_decay);
}

UpdateFactors factors_of(const ParameterSpec& variable, const OptimizerSettings& settings) {
  const auto group = std::ranges::find_if(settings.groups, [&](const auto& g) { return matches(g, variable); });
  const ParameterGroup own = group == settings.groups.end() ? ParameterGroup{} : *group;
  const bool is_vector = variable.shape.rank() <= 1;
  return {.l2 = variable.l2_factor,
          .rate = static_cast<float>(own.rate),
          .weight_decay = own.decay ? static_cast<float>(*own.decay) : default_decay(settings, is_vector),
          .has_ratio = !is_vector,
          .first_step = own.frozen_until,
          .end_step = variable.trains ? own.frozen_after : own.frozen_until};
}

}  // namespace

void check_groups(const std::vector<ParameterGroup>& groups, const std::vector<ParameterSpec>& variables) {
  std::set<std::string_view> taken;  // by a group before
  for (const ParameterGroup& group : groups) {
    std::vector<std::string_view> names, matched;
    for (const ParameterSpec& variable : variables) {
      names.push_back(variable.name);
      if (matches(group, variable)) matched.push_back(variable.name);
    }
    if (matched.empty()) {
      fail(ExitCode::usage, "--group: '{}' matches no variable; there are: {}", group.pattern, fmt::join(names, ", "));
    }
    if (std::ranges::all_of(matched, [&](std::string_view name) { return taken.contains(name); })) {
      fail(ExitCode::usage, "--group: '{}' comes behind patterns that match all of its variables", group.pattern);
    }
    taken.insert(matched.begin(), matched.end());
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
