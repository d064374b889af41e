// Option values that are lists: milestones, schedule points, parameter groups.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "src/options/option_values.h"

namespace carillon {
namespace {

using Interval = OptionSet::Interval;

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

/// The parts between `separator`s, trimmed.
std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

std::int64_t step_of(const std::string& text) { return parse_integer(text, 0, max_option_steps); }

/// Whether a line of a --config file can hold it.
bool is_pattern(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != '#'; });
}

void set_value(const std::string& name, const std::string& value, ParameterGroup& group) {
  if (name == "rate") {
    group.rate = parse_number(value, Interval::not_negative);
  } else if (name == "decay") {
    group.decay = parse_number(value, Interval::not_negative);
  } else if (name == "muon") {
    group.muon = parse_integer(value, 0, 1) == 1;
  } else if (name == "frozen-until") {
    group.frozen_until = step_of(value);
  } else if (name == "frozen-after") {
    group.frozen_after = step_of(value);
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
  ParameterGroup group{.pattern = trimmed(text.substr(0, colon))};
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

}  // namespace

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

std::vector<SchedulePoint> parse_schedule_points(const std::string& text) {
  std::vector<SchedulePoint> points;
  try {
    for (const std::string& part : parts_of(text, ',')) {
      const std::vector<std::string> sides = parts_of(part, ':');
      if (sides.size() != 2) throw ValueExpected{};
      points.push_back({.step = step_of(sides[0]), .rate = parse_number(sides[1], Interval::not_negative)});
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

}  // namespace carillon
