#include "src/app/optimizer_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "src/app/option_values.h"
#include "src/app/options.h"

namespace carillon {
namespace {

using Interval = OptionSet::Interval;
using enum ScheduleKind;

struct ScheduleOption {
  std::string_view option;
  std::vector<ScheduleKind> used_by;
};

/// Options of the schedule that not all use.
std::vector<ScheduleOption> options_of_schedules() {
  return {{"learning-rate", {exponential, constant, step, polynomial, cosine}},
          {"learning-rate-decay", {exponential}},
          {"decay-steps", {exponential}},
          {"schedule-steps", {polynomial, cosine}},
          {"final-learning-rate", {polynomial, cosine}},
          {"schedule-power", {polynomial}},
          {"milestones", {step}},
          {"milestone-factor", {step}},
          {"schedule-knots", {triangular}}};
}

/// Whether an option that the choice made by `chooser` does not use is a mistake: not where a recipe has it and the
/// command line chose otherwise.
bool contradicts(const OptionSet& set, std::string_view option, std::string_view chooser) {
  return set.given(option) && set.given_by(option) >= set.given_by(chooser);
}

void check_rule(const OptionSet& set, const TrainOptions& o) {
  const auto uses = [](const RuleName& rule, std::string_view option) {
    return std::ranges::find(rule.options, option) != rule.options.end();
  };
  const std::vector<RuleName> rules = update_rules();
  const auto& own = *std::ranges::find(rules, o.optimizer_settings.rule, &RuleName::name);
  for (const RuleName& rule : rules) {
    for (const std::string_view option : rule.options) {
      if (uses(own, option) || !contradicts(set, option, "optimizer")) continue;
      std::vector<std::string_view> names;
      for (const RuleName& other : rules) {
        if (uses(other, option)) names.push_back(other.name);
      }
      fail(ExitCode::usage, "--{} is of --optimizer {}; this run's is {}", option, fmt::join(names, ", "), own.name);
    }
  }
}

void check_groups_of_rule(const TrainOptions& o) {
  const OptimizerSettings& settings = o.optimizer_settings;
  const bool is_muon = settings.rule.starts_with("muon");
  for (const ParameterGroup& group : settings.groups) {
    if (is_muon || !group.muon) continue;
    fail(ExitCode::usage, "--group: '{}' has a setting of --optimizer muon, muon-nesterov; this run's is {}",
         group.pattern, settings.rule);
  }
}

void check_schedule(const OptionSet& set, const TrainOptions& o) {
  const ScheduleOptions& schedule = o.schedule_options;
  for (const auto& [option, used_by] : options_of_schedules()) {
    if (!contradicts(set, option, "schedule") || std::ranges::find(used_by, schedule.kind) != used_by.end()) continue;
    std::vector<std::string> kinds;
    for (const ScheduleKind kind : used_by) kinds.push_back(text_of(schedule_choices, kind));
    fail(ExitCode::usage, "--{} is of --schedule {}; this run's is {}", option, fmt::join(kinds, ", "),
         text_of(schedule_choices, schedule.kind));
  }
  if (schedule.kind == step && schedule.milestones.empty()) fail(ExitCode::usage, "--schedule step needs --milestones");
  if (schedule.kind == triangular && schedule.points.empty()) {
    fail(ExitCode::usage, "--schedule triangular needs --schedule-knots");
  }
  if (set.given("warmup-from") && schedule.warm_up_steps == 0) {
    fail(ExitCode::usage, "--warmup-from needs --warmup-steps");
  }
  const std::int64_t end = schedule.steps > 0 ? schedule.steps : o.max_steps;
  if (has_end(schedule.kind) && end > 0 && end <= schedule.warm_up_steps) {
    fail(ExitCode::usage, "--{}: {} end within the {} of --warmup-steps",
         schedule.steps > 0 ? "schedule-steps" : "max-steps", end, schedule.warm_up_steps);
  }
}

void check_lookahead(const OptionSet& set, const TrainOptions& o) {
  const LookaheadSettings& lookahead = o.optimizer_settings.lookahead;
  for (const char* const option : {"lookahead-decay", "lookahead-power", "lookahead-steps"}) {
    if (lookahead.every == 0 && contradicts(set, option, "lookahead-every")) {
      fail(ExitCode::usage, "--{} needs --lookahead-every", option);
    }
  }
  const std::int64_t end = lookahead.steps > 0 ? lookahead.steps : o.max_steps;
  if (end > 0 && lookahead.every > end) {
    fail(ExitCode::usage, "--lookahead-every: {} steps are more than the {} of --{}", lookahead.every, end,
         lookahead.steps > 0 ? "lookahead-steps" : "max-steps");
  }
}

}  // namespace

void declare_optimizer(OptionSet& set, TrainOptions& o) {
  OptimizerSettings& settings = o.optimizer_settings;
  std::vector<std::string> rules;
  for (const RuleName& rule : update_rules()) rules.emplace_back(rule.name);
  set.begin_group("Optimiser");
  set.add("optimizer", settings.rule, rules, "rule of the update", Scope::result);
  set.add("momentum", settings.momentum, Interval::unit,
          "of momentum, nesterov, lars, muon-nesterov: how much of the last step's is kept", Scope::result);
  set.add("dampening", settings.dampening, Interval::unit, "of momentum: the part of a gradient that is left out of it",
          Scope::result);
  set.add("adam-beta1", settings.adam_beta1, Interval::below_one, "of adamw, lamb, muon: decay of the gradients' mean",
          Scope::result);
  set.add("adam-beta2", settings.adam_beta2, Interval::below_one, "of adamw, lamb, muon: decay of their squares' mean",
          Scope::result);
  set.add("adam-epsilon", settings.adam_epsilon, Interval::positive, "of adamw, lamb, muon: added to the root of that",
          Scope::result);
  set.add("lars-coefficient", settings.lars_coefficient, Interval::positive,
          "of lars: part of a variable's norm that a step at learning rate 1 is", Scope::result);
  set.add("muon-momentum", settings.muon_momentum, Interval::below_one,
          "of the muon rules, for hidden matrices; others are adamw's, or nesterov's", Scope::result);
  set.add("muon-steps", settings.muon_steps, 1, 100, "of the muon rules: of the iteration that orthogonalises",
          Scope::result);
  set.add("muon-normalize", settings.muon_normalizes,
          "of the muon rules: bring each such matrix to norm sqrt(outputs) before its step, in place of decay",
          Scope::result);
  set.add("weight-decay", settings.weight_decay, Interval::not_negative,
          "of all variables (lars, lamb: but vectors), besides --regularization: times the variable, added to the "
          "gradient; decoupled with "
          "adamw, lamb, muon",
          Scope::result);
  set.add("regularization", o.regularization, Interval::not_negative, "L2 factor of the weight matrices",
          Scope::result);
  set.add("moving-average-decay", o.moving_average_decay, Interval::unit, "decay of the variables' moving averages",
          Scope::result);
  set.add("group",
          {.set = [&settings](const auto& texts) { settings.groups = parse_groups(texts); },
           .get = [&settings] { return texts_of(settings.groups); },
           .takes_many = true},
          "variables that are trained otherwise, as 'PATTERN: rate=X, decay=X, muon=0|1, frozen-until=N, "
          "frozen-after=N': rate "
          "multiplies the learning rate, muon=1 makes it a hidden matrix; the first pattern that matches counts",
          Scope::result);
}

void declare_lookahead(OptionSet& set, TrainOptions& o) {
  LookaheadSettings& lookahead = o.optimizer_settings.lookahead;
  set.begin_group("Lookahead");
  set.add("lookahead-every", lookahead.every, 0, max_option_steps,
          "steps after which all values return to slow copies of them; 0: no lookahead", Scope::result);
  set.add("lookahead-decay", lookahead.decay, Interval::unit, "how much of the slow copies is kept there",
          Scope::result);
  set.add("lookahead-power", lookahead.power, Interval::not_negative,
          "of the step's share of all steps: multiplies that; 0: nothing does", Scope::result);
  set.add(
      "lookahead-steps", lookahead.steps, 0, max_option_steps,
      "with a power: global step from which on it multiplies by 1; all values are slow copies there; 0: --max-steps",
      Scope::result);
}

void declare_schedule(OptionSet& set, TrainOptions& o) {
  ScheduleOptions& schedule = o.schedule_options;
  set.begin_group("Schedule");
  set.add("schedule", schedule.kind, schedule_choices, "learning rate over the steps", Scope::result);
  set.add("learning-rate", o.learning_rate, Interval::positive, "initial learning rate", Scope::result);
  set.add("learning-rate-decay", o.learning_rate_decay, Interval::positive,
          "of exponential: factor applied every decay-steps", Scope::result);
  set.add("decay-steps", o.decay_steps, 0, max_option_steps,
          "of exponential: steps per decay; 0: by the reference's rule, from the batch size", Scope::result);
  set.add("warmup-steps", schedule.warm_up_steps, 0, max_option_steps,
          "steps of a line up to the schedule's first rate", Scope::result);
  set.add("warmup-from", schedule.warm_up_from, Interval::not_negative, "learning rate at that line's start",
          Scope::result);
  set.add("schedule-steps", schedule.steps, 0, max_option_steps,
          "of polynomial and cosine: global step of their end; 0: --max-steps", Scope::result);
  set.add("final-learning-rate", schedule.final_rate, Interval::not_negative,
          "of polynomial and cosine: rate from there", Scope::result);
  set.add("schedule-power", schedule.power, Interval::positive, "of polynomial: 1 is a line", Scope::result);
  set.add("milestones",
          {.set = [&schedule](const auto& texts) { schedule.milestones = parse_milestones(texts.front()); },
           .get = [&schedule] { return fmt::format("{}", fmt::join(schedule.milestones, ",")); }},
          "of step: global steps N,N,... from which the rate is lower", Scope::result);
  set.add("milestone-factor", schedule.milestone_factor, Interval::positive, "of step: multiplies the rate at each",
          Scope::result);
  set.add("schedule-knots",
          {.set = [&schedule](const auto& texts) { schedule.points = parse_schedule_points(texts.front()); },
           .get = [&schedule] { return text_of(schedule.points); }},
          "of triangular: global steps and rates N:X,N:X,... with lines between them", Scope::result);
}

void check_optimizer(const OptionSet& set, const TrainOptions& options) {
  check_rule(set, options);
  check_groups_of_rule(options);
  check_schedule(set, options);
  check_lookahead(set, options);
}

void resolve_ends(TrainOptions& options) {
  ScheduleOptions& schedule = options.schedule_options;
  if (has_end(schedule.kind) && schedule.steps == 0) schedule.steps = options.max_steps;
  LookaheadSettings& lookahead = options.optimizer_settings.lookahead;
  if (lookahead.every > 0 && lookahead.power > 0.0 && lookahead.steps == 0) lookahead.steps = options.max_steps;
}

}  // namespace carillon
