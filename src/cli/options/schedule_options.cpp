#include "carillon/cli/options/train_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"

namespace carillon {
namespace {

using enum ScheduleKind;

constexpr std::array schedule_choices{
    Choice{exponential, "exponential"}, Choice{constant, "constant"}, Choice{step, "step"},
    Choice{polynomial, "polynomial"},   Choice{cosine, "cosine"},     Choice{triangular, "triangular"}};

struct ScheduleOption {
  std::string_view option;
  std::vector<ScheduleKind> used_by;
};

/// Options that only some schedules use.
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

// Texts of lists. text_of writes a text that parses to the same list.

std::int64_t step_of(const std::string& text) { return parse_integer(text, 0, max_option_steps); }

/// Parses ascending steps: "3,5,8".
std::vector<std::int64_t> parse_milestones(const std::string& text) {
  std::vector<std::int64_t> steps;
  try {
    for (const std::string& part : parts_of(text, ',')) steps.push_back(step_of(part));
  } catch (const ValueExpected&) {
    steps.clear();
  }
  if (steps.empty() || std::ranges::adjacent_find(steps, std::greater_equal{}) != steps.end()) {
    throw ValueExpected{"a list of ascending steps N,N,..."};
  }
  return steps;
}

/// Parses ascending steps with their learning rates: "0:0.1,20:0.5".
std::vector<SchedulePoint> parse_schedule_points(const std::string& text) {
  std::vector<SchedulePoint> points;
  try {
    for (const std::string& part : parts_of(text, ',')) {
      const std::vector<std::string> sides = parts_of(part, ':');
      if (sides.size() != 2) throw ValueExpected{};
      points.push_back({.step = step_of(sides[0]), .rate = parse_number(sides[1], NumberRange::not_negative)});
    }
  } catch (const ValueExpected&) {
    points.clear();
  }
  if (points.empty() ||
      std::ranges::adjacent_find(points, std::greater_equal{}, &SchedulePoint::step) != points.end()) {
    throw ValueExpected{"a list of ascending steps with learning rates, N:X,N:X,..."};
  }
  return points;
}

std::string text_of(const std::vector<SchedulePoint>& points) {
  std::vector<std::string> texts;
  for (const SchedulePoint& point : points) texts.push_back(fmt::format("{}:{}", point.step, point.rate));
  return fmt::format("{}", fmt::join(texts, ","));
}

/// Returns the schedule after the warm-up. Its step 0 is the step at which the warm-up ends.
Schedule main_schedule(const ScheduleOptions& o, std::int64_t max_steps) {
  const std::int64_t end = o.steps > 0 ? o.steps : max_steps, steps = std::max<std::int64_t>(1, end - o.warm_up_steps);
  switch (o.kind) {
    case exponential:
      break;
    case constant:
      return constant_rate(o.learning_rate);
    case polynomial:
      return polynomial_decay({.initial = o.learning_rate, .final = o.final_rate, .power = o.power, .steps = steps});
    case cosine:
      return cosine_decay({.initial = o.learning_rate, .final = o.final_rate, .steps = steps});
    case step: {
      StepDecay decay{.initial = o.learning_rate, .factor = o.milestone_factor, .milestones = o.milestones};
      for (std::int64_t& milestone : decay.milestones) milestone -= o.warm_up_steps;
      return step_decay(std::move(decay));
    }
    case triangular: {
      std::vector<SchedulePoint> points = o.points;
      for (SchedulePoint& point : points) point.step -= o.warm_up_steps;
      return piecewise_linear(std::move(points));
    }
  }
  check(o.decay_steps > 0, "decay_steps of an exponential schedule is not resolved");
  return exponential_decay({.initial = o.learning_rate,
                            .factor = o.learning_rate_decay,
                            .decay_steps = static_cast<double>(o.decay_steps),
                            .staircase = o.staircase});
}

}  // namespace

Schedule make_schedule(const ScheduleOptions& options, std::int64_t max_steps) {
  return warm_up({.from = options.warm_up_from, .steps = options.warm_up_steps}, main_schedule(options, max_steps));
}

void declare(OptionSet& set, ScheduleOptions& o) {
  set.begin_group("Schedule", Scope::result);
  set.add("schedule", o.kind, schedule_choices, "learning rate schedule");
  set.add("learning-rate", o.learning_rate, NumberRange::positive, "initial learning rate (all but triangular)");
  set.add("learning-rate-decay", o.learning_rate_decay, NumberRange::positive,
          "factor applied every --decay-steps steps (exponential)");
  set.add("decay-steps", o.decay_steps, 0, max_option_steps,
          "steps per decay (exponential); 0: computed from the batch size, as in the TensorFlow programs");
  set.add("warmup-steps", o.warm_up_steps, 0, max_option_steps,
          "steps of linear warm-up to the schedule's first learning rate; 0: disabled");
  set.add("warmup-from", o.warm_up_from, NumberRange::not_negative, "learning rate at the start of the warm-up");
  set.add("schedule-steps", o.steps, 0, max_option_steps,
          "global step at which the schedule ends (polynomial, cosine); 0: --max-steps");
  set.add("final-learning-rate", o.final_rate, NumberRange::not_negative,
          "learning rate from the end of the schedule on (polynomial, cosine)");
  set.add("schedule-power", o.power, NumberRange::positive, "exponent of the decay (polynomial); 1: linear");
  set.add({.name = "milestones",
           .help = "global steps N,N,... at which --schedule step lowers the learning rate",
           .set = [&o](const auto& texts) { o.milestones = parse_milestones(texts.front()); },
           .get = [&o] { return fmt::format("{}", fmt::join(o.milestones, ",")); }});
  set.add("milestone-factor", o.milestone_factor, NumberRange::positive, "factor applied at each milestone (step)");
  set.add({.name = "schedule-knots",
           .help = "global steps and learning rates N:X,N:X,..., which --schedule triangular joins by lines",
           .set = [&o](const auto& texts) { o.points = parse_schedule_points(texts.front()); },
           .get = [&o] { return text_of(o.points); }});
}

std::vector<std::string_view> options_without_effect(const ScheduleOptions& o) {
  std::vector<std::string_view> names;
  for (const auto& [option, used_by] : options_of_schedules()) {
    if (std::ranges::find(used_by, o.kind) == used_by.end()) names.push_back(option);
  }
  if (o.warm_up_steps == 0) names.emplace_back("warmup-from");
  return names;
}

void check(const OptionSet& set, const ScheduleOptions& o) {
  for (const auto& [option, used_by] : options_of_schedules()) {
    if (!set.given_with(option, "schedule") || std::ranges::find(used_by, o.kind) != used_by.end()) continue;
    std::vector<std::string> kinds;
    for (const ScheduleKind kind : used_by) kinds.push_back(text_of(schedule_choices, kind));
    fail(ExitCode::usage, "--{} requires --schedule {}; this run uses {}", option, fmt::join(kinds, ", "),
         text_of(schedule_choices, o.kind));
  }
  if (o.kind == step && o.milestones.empty()) fail(ExitCode::usage, "--schedule step requires --milestones");
  if (o.kind == triangular && o.points.empty()) {
    fail(ExitCode::usage, "--schedule triangular requires --schedule-knots");
  }
  if (set.given_with("warmup-from", "warmup-steps") && o.warm_up_steps == 0) {
    fail(ExitCode::usage, "--warmup-from requires --warmup-steps");
  }
}

void check_end(const ScheduleOptions& o, std::int64_t max_steps, const std::string& length) {
  const std::int64_t end = o.steps > 0 ? o.steps : max_steps;
  if (has_end(o.kind) && end > 0 && end <= o.warm_up_steps) {
    fail(ExitCode::usage, "{}: the schedule must end after --warmup-steps {}",
         o.steps > 0 ? fmt::format("--schedule-steps {}", end) : length, o.warm_up_steps);
  }
}

}  // namespace carillon
