// ParameterGroup: training settings for all variables with a name that matches a pattern.
//
// The first group that matches a variable's name applies to the variable. If no group matches a variable, the variable
// has the settings of OptimizerSettings.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "carillon/graph/parameters.h"

namespace carillon {

struct ParameterGroup {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  std::string pattern;               ///< shell pattern of the whole name; `*` matches `/` too
  double rate = 1.0;                 ///< factor of the learning rate
  std::optional<double> decay = {};  ///< weight decay; nullopt: OptimizerSettings::weight_decay
  std::optional<bool> muon = {};     ///< whether muon rules orthogonalise it; nullopt: hidden matrices only
  // The variable is trained in steps [frozen_until, frozen_after). In other steps its values and the rule's slots do
  // not change; moving average and lookahead continue. Bias corrections count the updates of the variable from
  // frozen_until on.
  std::int64_t frozen_until = 0, frozen_after = never;
  std::string option = "--group";  ///< the option that defines the group, for messages
};

/// Errors: usage (a pattern matches no variable, or only variables of earlier groups; the message lists the variables).
void check_groups(const std::vector<ParameterGroup>& groups, const std::vector<ParameterSpec>& variables);

}  // namespace carillon
