// The list of update rules, and the selection of a rule by its name. To add a rule, write one file in src/optim/rules
// and add the rule to the list below.
#pragma once

#include <memory>
#include <string_view>
#include <type_traits>

#include "src/optim/rules/adam.h"
#include "src/optim/rules/lars.h"
#include "src/optim/rules/muon.h"
#include "src/optim/rules/sgd.h"

namespace carillon {

template <UpdateRule... R>
struct RuleList {};
using UpdateRules = RuleList<Sgd, Momentum, Nesterov, AdamW, Lars, Lamb, MuonAdamW, MuonNesterov>;

/// As make_optimizer, for parameters in host memory and a rule that needs whole variables. Errors: failed (an
/// elementwise rule).
std::unique_ptr<Optimizer> make_variable_optimizer(const OptimizerSettings& settings, const ParameterStore& parameters,
                                                   const StepInputs& inputs);
/// CUDA builds only. The update kernel is the step's last kernel (StepEnd::finish_block).
std::unique_ptr<Optimizer> make_optimizer_cuda(const OptimizerSettings& settings, const ParameterStore& parameters,
                                               Device& device, const StepInputs& inputs, Arithmetic arithmetic);

[[noreturn]] void fail_unknown_rule(std::string_view name);

template <typename Body, UpdateRule First, UpdateRule... Others>
auto with_rule_of(RuleList<First, Others...> /*rules*/, std::string_view name, const Body& body) {
  if (name == First::name) return body(std::type_identity<First>{});
  if constexpr (sizeof...(Others) > 0) {
    return with_rule_of(RuleList<Others...>{}, name, body);
  } else {
    fail_unknown_rule(name);
  }
}

/// Calls body(std::type_identity<Rule>{}) with the rule that has this name. Errors: usage (unknown; the message lists
/// the rules).
template <typename Body>
auto with_rule(std::string_view name, const Body& body) {
  return with_rule_of(UpdateRules{}, name, body);
}

}  // namespace carillon
