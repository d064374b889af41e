#include "src/optim/rules.h"

#include <fmt/ranges.h>

#include "carillon/core/error.h"

namespace carillon {
namespace {

template <typename... Rule>
std::vector<RuleName> names_of(RuleList<Rule...> /*rules*/) {
  return {{.name = Rule::name, .options = {Rule::options.begin(), Rule::options.end()}}...};
}

}  // namespace

std::vector<RuleName> update_rules() { return names_of(UpdateRules{}); }

void fail_unknown_rule(std::string_view name) {
  std::vector<std::string_view> names;
  for (const RuleName& rule : update_rules()) names.push_back(rule.name);
  fail(ExitCode::usage, "unknown optimiser '{}'; choose one of: {}", name, fmt::join(names, ", "));
}

}  // namespace carillon
