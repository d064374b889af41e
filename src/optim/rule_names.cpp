#include "src/optim/optimizer.h"
#include "src/optim/rules.h"

namespace carillon {
namespace {

template <typename... Rule>
std::vector<RuleName> names_of(RuleList<Rule...> /*rules*/) {
  return {{.name = Rule::name, .options = {Rule::options.begin(), Rule::options.end()}}...};
}

}  // namespace

std::vector<RuleName> update_rules() { return names_of(UpdateRules{}); }

}  // namespace carillon
