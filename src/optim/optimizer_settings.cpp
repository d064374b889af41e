#include "carillon/optim/optimizer_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "carillon/core/error.h"
#include "src/optim/rules.h"

namespace carillon {

Schedule constant_rate(double rate) {
  return Schedule([rate](std::int64_t) { return rate; });
}

Schedule exponential_decay(const ExponentialDecay& decay) {
  return Schedule([decay](std::int64_t step) {
    const double exponent = static_cast<double>(step) / decay.decay_steps;
    return decay.initial * std::pow(decay.factor, decay.staircase ? std::floor(exponent) : exponent);
  });
}

Schedule cosine_decay(const CosineDecay& decay) {
  check(decay.steps > 0, "a cosine decay requires at least one step");
  return Schedule([decay](std::int64_t step) {
    const double done = static_cast<double>(std::min(step, decay.steps)) / static_cast<double>(decay.steps);
    return decay.final + 0.5 * (decay.initial - decay.final) * (1.0 + std::cos(std::numbers::pi * done));
  });
}

Schedule polynomial_decay(const PolynomialDecay& decay) {
  check(decay.steps > 0, "a polynomial decay requires at least one step");
  return Schedule([decay](std::int64_t step) {
    const double done = static_cast<double>(std::min(step, decay.steps)) / static_cast<double>(decay.steps);
    return decay.final + (decay.initial - decay.final) * std::pow(1.0 - done, decay.power);
  });
}

Schedule step_decay(StepDecay decay) {
  return Schedule([decay = std::move(decay)](std::int64_t step) {
    const auto passed = std::ranges::upper_bound(decay.milestones, step) - decay.milestones.begin();
    return decay.initial * std::pow(decay.factor, static_cast<double>(passed));
  });
}

Schedule piecewise_linear(std::vector<SchedulePoint> points) {
  check(!points.empty(), "a piecewise linear schedule requires at least one point");
  return Schedule([points = std::move(points)](std::int64_t step) {
    const auto next = std::ranges::upper_bound(points, step, {}, &SchedulePoint::step);
    if (next == points.begin()) return next->rate;
    const SchedulePoint& before = *std::prev(next);
    if (next == points.end()) return before.rate;
    const double done = static_cast<double>(step - before.step) / static_cast<double>(next->step - before.step);
    return before.rate + (next->rate - before.rate) * done;
  });
}

Schedule warm_up(const WarmUp& warm_up, Schedule then) {
  return Schedule([warm_up, then = std::move(then)](std::int64_t step) {
    if (step >= warm_up.steps) return then.rate(step - warm_up.steps);
    const double done = static_cast<double>(step) / static_cast<double>(warm_up.steps);
    return warm_up.from + (then.rate(0) - warm_up.from) * done;
  });
}

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
