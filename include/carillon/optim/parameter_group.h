// ParameterGroup: variables, by name, that are trained otherwise than the rest.
//
// Of several groups, the first whose pattern matches a variable's name is the variable's; one that none matches is
// trained as if there were no groups.
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

  std::string pattern;               ///< as a shell's, of the whole name; `*` matches `/` too
  double rate = 1.0;                 ///< multiplies the learning rate
  std::optional<double> decay = {};  ///< the weight decay, in place of OptimizerSettings::weight_decay
  std::optional<bool> muon = {};     ///< whether the muon rules orthogonalise it; nothing: where it is hidden
  // Trained in steps [frozen_until, frozen_after). In others values and a rule's slots stay as they are; the moving
  // average and a lookahead go on. Corrections for a variable's age count from frozen_until.
  std::int64_t frozen_until = 0, frozen_after = never;
  std::string option = "--group";  ///< that it comes from, for messages
};

/// Errors: usage (a pattern that matches no variable: lists those there are).
void check_groups(const std::vector<ParameterGroup>& groups, const std::vector<ParameterSpec>& variables);

}  // namespace carillon
