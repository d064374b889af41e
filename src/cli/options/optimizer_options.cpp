#include "carillon/cli/options/train_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"
#include "src/core/text.h"

namespace carillon {
namespace {

// Texts of parameter groups, such as "*/biases: rate=64, decay=0, frozen-until=10, frozen-after=300". Each has at least
// one setting. texts_of writes texts that parse to the same groups.

/// True if the pattern can be written in a line of a --config file.
bool is_pattern(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != '#'; });
}

void set_value(const std::string& name, const std::string& value, ParameterGroup& group) {
  if (name == "rate") {
    group.rate = parse_number(value, NumberRange::not_negative);
  } else if (name == "decay") {
    group.decay = parse_number(value, NumberRange::not_negative);
  } else if (name == "muon") {
    group.muon = parse_integer(value, 0, 1) == 1;
  } else if (name == "frozen-until") {
    group.frozen_until = parse_integer(value, 0, max_option_steps);
  } else if (name == "frozen-after") {
    group.frozen_after = parse_integer(value, 0, max_option_steps);
  } else {
    throw ValueExpected{"a setting of a group (rate, decay, muon, frozen-until, frozen-after)", name};
  }
}

void add_setting(const std::string& text, ParameterGroup& group) {
  const std::vector<std::string> sides = parts_of(text, '=');
  if (sides.size() != 2) throw ValueExpected{};
  const std::string &name = sides[0], &value = sides[1];
  try {
    set_value(name, value, group);
  } catch (const ValueExpected& expected) {
    if (expected.text) throw;
    throw ValueExpected{fmt::format("{} ({} of {})", expected.what, name, group.pattern), value};
  }
}

ParameterGroup group_of(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  ParameterGroup group{.pattern = parts_of(text, ':').front()};
  if (!is_pattern(group.pattern) || colon == text.size()) throw ValueExpected{};
  std::set<std::string> names;
  for (const std::string& setting : parts_of(text.substr(colon + 1), ',')) {
    add_setting(setting, group);
    if (!names.insert(parts_of(setting, '=').front()).second) {
      throw ValueExpected{"PATTERN: SETTING=X, ... with each setting once", text};
    }
  }
  if (group.frozen_until > 0 && group.frozen_after <= group.frozen_until) {
    throw ValueExpected{fmt::format("later than frozen-until={}", group.frozen_until),
                        fmt::format("frozen-after={}", group.frozen_after)};
  }
  return group;
}

std::vector<ParameterGroup> parse_groups(const std::vector<std::string>& texts) {
  std::vector<ParameterGroup> groups;
  for (const std::string& text : texts) {
    try {
      groups.push_back(group_of(text));
    } catch (const ValueExpected& expected) {
      if (expected.text) throw;
      throw ValueExpected{"PATTERN: SETTING=X, ... with settings rate, decay, muon, frozen-until, frozen-after", text};
    }
  }
  return groups;
}

std::vector<std::string> texts_of(const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> texts;
  for (const ParameterGroup& group : groups) {
    std::string text = fmt::format("{}: rate={}", group.pattern, group.rate);
    if (group.decay) text += fmt::format(", decay={}", *group.decay);
    if (group.muon) text += fmt::format(", muon={}", *group.muon ? 1 : 0);
    if (group.frozen_until > 0) text += fmt::format(", frozen-until={}", group.frozen_until);
    if (group.frozen_after != ParameterGroup::never) text += fmt::format(", frozen-after={}", group.frozen_after);
    texts.push_back(std::move(text));
  }
  return texts;
}

void declare_update(OptionSet& set, OptimizerOptions& o) {
  OptimizerSettings& update = o.update;
  std::vector<std::string> rules;
  for (const RuleName& rule : update_rules()) rules.emplace_back(rule.name);
  set.begin_group("Optimiser", Scope::result);
  set.add("optimizer", update.rule, rules, "update rule");
  set.add("momentum", update.momentum, NumberRange::unit,
          "momentum coefficient (momentum, nesterov, lars, muon-nesterov)");
  set.add("dampening", update.dampening, NumberRange::unit,
          "part of the gradient, 0 to 1, that does not enter the momentum (momentum)");
  set.add("adam-beta1", update.adam_beta1, NumberRange::below_one, "decay of the mean gradient (adamw, lamb, muon)");
  set.add("adam-beta2", update.adam_beta2, NumberRange::below_one,
          "decay of the mean squared gradient (adamw, lamb, muon)");
  set.add("adam-epsilon", update.adam_epsilon, NumberRange::positive,
          "term added to the root of the mean squared gradient (adamw, lamb, muon)");
  set.add("lars-coefficient", update.lars_coefficient, NumberRange::positive,
          "norm of a step at learning rate 1, relative to the variable's norm (lars)");
  set.add("muon-momentum", update.muon_momentum, NumberRange::below_one,
          "momentum coefficient of hidden matrices (muon, muon-nesterov)");
  set.add("muon-steps", update.muon_steps, 1, 100,
          "iterations of the orthogonalisation of hidden matrices (muon, muon-nesterov)");
  set.add("muon-normalize", update.muon_normalizes,
          "scale each hidden matrix to norm sqrt(outputs) before its step, in place of weight decay (muon, "
          "muon-nesterov)");
  set.add("weight-decay", update.weight_decay, NumberRange::not_negative,
          "factor of the variable that is added to its gradient, in addition to --regularization; decoupled from the "
          "gradient (adamw, lamb, muon); see --decay-exclude");
  set.add("decay-exclude", update.decay_exclude,
          "patterns of variables without weight decay and L2; adamw, lars and lamb also exclude all vectors, such as "
          "biases, and scales and shifts of norms; none: do not exclude the vectors");
  set.add("regularization", o.regularization, NumberRange::not_negative,
          "L2 factor of the weight matrices in the loss");
  set.add("clip-norm", update.clip_norm, NumberRange::not_negative,
          "largest norm of the mean gradient, over all trained variables and with the gradient of --regularization; a "
          "larger gradient is scaled down to it; 0: disabled; default for a regression of image_train: 1");
  set.add("moving-average-decay", update.moving_average_decay, NumberRange::unit,
          "decay of the variables' moving averages");
  set.add("layer-decay", update.layer_decay, NumberRange::unit,
          "factor of the learning rate per block, from the logits towards the input, for fine-tuning, e.g. 0.75; 1: "
          "disabled");
  set.add(
      {.name = "group",
       .help =
           "variables with their own settings: 'PATTERN: rate=X, decay=X, muon=0|1, frozen-until=N, frozen-after=N'; "
           "rate multiplies the learning rate, muon=1 makes a variable a hidden matrix; the first pattern that matches "
           "a variable applies",
       .set = [&update](const auto& texts) { update.groups = parse_groups(texts); },
       .get = [&update] { return texts_of(update.groups); },
       .takes_many = true});
}

void declare_lookahead(OptionSet& set, LookaheadSettings& lookahead) {
  set.begin_group("Lookahead", Scope::result);
  set.add("lookahead-every", lookahead.every, 0, max_option_steps,
          "steps between updates of the slow copies, which then replace all variables; 0: disabled");
  set.add("lookahead-decay", lookahead.decay, NumberRange::unit,
          "part of the slow copies, 0 to 1, that an update keeps");
  set.add("lookahead-power", lookahead.power, NumberRange::not_negative,
          "exponent of (step / lookahead-steps) that scales --lookahead-decay; 0: constant");
  set.add("lookahead-steps", lookahead.steps, 0, max_option_steps,
          "global step at which the scale reaches 1, and the slow copies replace all variables a last time "
          "(--lookahead-power); 0: --max-steps");
}

void declare_length(OptionSet& set, OptimizerOptions& o) {
  set.begin_group("Training");
  set.add("max-steps", o.max_steps, 0, max_option_steps,
          "global step at which the training ends; 0: only write the initial checkpoint");
  set.add("epochs", o.epochs, NumberRange::not_negative,
          "passes over the training records, also fractions such as 0.5; sets --max-steps; 0: not used");
  set.add("time-budget", o.time_budget, NumberRange::not_negative,
          "seconds for the whole run, including all its starts; the speed determines the last step, which is at most "
          "--max-steps, and the schedule ends there; 0: unlimited");
  set.add("freeze", o.freeze,
          "patterns of variables that are not trained, e.g. 'stem/*'; if all variables of a batch norm match, the "
          "batch norm also uses and keeps its running statistics")
      .scope = Scope::result;
}

bool uses(const RuleName& rule, std::string_view option) {
  return std::ranges::find(rule.options, option) != rule.options.end();
}

void check_rule(const OptionSet& set, const OptimizerOptions& o) {
  const std::vector<RuleName> rules = update_rules();
  const auto& own = *std::ranges::find(rules, o.update.rule, &RuleName::name);
  for (const RuleName& rule : rules) {
    for (const std::string_view option : rule.options) {
      if (uses(own, option) || !set.given_with(option, "optimizer")) continue;
      std::vector<std::string_view> names;
      for (const RuleName& other : rules) {
        if (uses(other, option)) names.push_back(other.name);
      }
      fail(ExitCode::usage, "--{} requires --optimizer {}; this run uses {}", option, fmt::join(names, ", "), own.name);
    }
  }
}

void check_groups_of_rule(const OptimizerSettings& update) {
  const bool is_muon = update.rule.starts_with("muon");
  for (const ParameterGroup& group : update.groups) {
    if (is_muon || !group.muon) continue;
    fail(ExitCode::usage, "--group: muon of '{}' requires --optimizer muon, muon-nesterov; this run uses {}",
         group.pattern, update.rule);
  }
}

constexpr std::array lookahead_options{"lookahead-decay", "lookahead-power", "lookahead-steps"};

void check_lookahead(const OptionSet& set, const LookaheadSettings& lookahead) {
  for (const char* const option : lookahead_options) {
    if (lookahead.every == 0 && set.given_with(option, "lookahead-every")) {
      fail(ExitCode::usage, "--{} requires --lookahead-every", option);
    }
  }
}

void check_end(const LookaheadSettings& lookahead, std::int64_t max_steps, const std::string& length) {
  const std::int64_t end = lookahead.steps > 0 ? lookahead.steps : max_steps;
  if (end > 0 && lookahead.every > end) {
    fail(ExitCode::usage, "--lookahead-every {} exceeds {}", lookahead.every,
         lookahead.steps > 0 ? fmt::format("--lookahead-steps {}", end) : length);
  }
}

}  // namespace

void declare(OptionSet& set, OptimizerOptions& o) {
  declare_length(set, o);
  declare_update(set, o);
  declare_lookahead(set, o.update.lookahead);
  declare(set, o.schedule);
  check_rule_options(set, update_rules());
}

void check_rule_options(const OptionSet& set, const std::vector<RuleName>& rules) {
  for (const RuleName& rule : rules) {
    for (const std::string_view option : rule.options) {
      if (!set.has(option)) {
        fail(ExitCode::failed, "the update rule {} (src/optim/rules.h) names the option '{}', which no program has",
             rule.name, option);
      }
    }
  }
}

void check(const OptionSet& set, const OptimizerOptions& o) {
  check_rule(set, o);
  if (o.update.layer_decay == 0.0) fail(ExitCode::usage, "--layer-decay 0 trains the last layer only: use --freeze");
  check_groups_of_rule(o.update);
  check(set, o.schedule);
  check_lookahead(set, o.update.lookahead);
  if (o.time_budget > 0.0 && o.update.lookahead.every > 0) {
    fail(ExitCode::usage,
         "--time-budget {}: cannot be combined with --lookahead-every, which counts steps: use --max-steps alone",
         o.time_budget);
  }
}

void choose_length(const OptionSet& set, OptimizerOptions& o) {
  if (o.epochs == 0.0) return;
  const OptionSet::GivenBy steps = set.given_by("max-steps"), epochs = set.given_by("epochs");
  if (steps == epochs && steps != OptionSet::GivenBy::nobody) {
    fail(ExitCode::usage, "--epochs {} and --max-steps {} contradict each other: give one of them", o.epochs,
         o.max_steps);
  }
  if (steps > epochs) o.epochs = 0.0;
}

std::vector<std::string_view> options_without_effect(const OptimizerOptions& o) {
  std::vector<std::string_view> names = options_without_effect(o.schedule);
  const std::vector<RuleName> rules = update_rules();
  const auto& own = *std::ranges::find(rules, o.update.rule, &RuleName::name);
  for (const RuleName& rule : rules) {
    std::ranges::copy_if(rule.options, std::back_inserter(names),
                         [&](std::string_view option) { return !uses(own, option); });
  }
  if (o.update.lookahead.every == 0) names.insert(names.end(), lookahead_options.begin(), lookahead_options.end());
  // With --time-budget, a schedule that ends at --max-steps is stretched or compressed so that it ends with the run.
  if (o.time_budget > 0.0 && o.schedule.steps == o.max_steps) names.push_back("schedule-steps");
  return names;
}

std::string length_text(const OptimizerOptions& o) {
  return o.epochs > 0.0 ? fmt::format("--epochs {} ({})", o.epochs, count_text(o.max_steps, "step"))
                        : fmt::format("--max-steps {}", o.max_steps);
}

void resolve_ends(OptimizerOptions& o) {
  check_end(o.schedule, o.max_steps, length_text(o));
  check_end(o.update.lookahead, o.max_steps, length_text(o));
  if (has_end(o.schedule.kind) && o.schedule.steps == 0) o.schedule.steps = o.max_steps;
  LookaheadSettings& lookahead = o.update.lookahead;
  if (lookahead.every > 0 && lookahead.power > 0.0 && lookahead.steps == 0) lookahead.steps = o.max_steps;
}

void resolve_epochs(OptimizerOptions& o, std::uint64_t record_count, std::uint64_t global_batch,
                    RunDescription& description) {
  const double exact = o.epochs * static_cast<double>(record_count) / static_cast<double>(global_batch);
  constexpr double rounding = 1e-9;  // in floating point, 1.1 * 1000 is above 1100
  const double steps = std::max(1.0, std::ceil(exact * (1.0 - rounding)));
  if (!(steps <= static_cast<double>(max_option_steps))) fail(ExitCode::usage, "--epochs {}: too many steps", o.epochs);
  o.max_steps = static_cast<std::int64_t>(steps);
  resolve_ends(o);
  description.replace("max_steps", o.max_steps);
  description.replace("schedule_steps", o.schedule.steps);
  description.replace("lookahead_steps", o.update.lookahead.steps);
}

OptimizerSettings OptimizerOptions::settings() const {
  OptimizerSettings settings = update;
  settings.learning_rate = make_schedule(schedule, max_steps);
  std::vector<ParameterGroup> frozen;
  for (const std::string& pattern : freeze) {
    frozen.push_back({.pattern = pattern, .frozen_after = 0, .option = "--freeze"});
  }
  settings.groups.insert(settings.groups.begin(), frozen.begin(), frozen.end());
  return settings;
}

}  // namespace carillon
