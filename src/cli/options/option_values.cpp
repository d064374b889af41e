#include "src/cli/options/option_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "src/core/text.h"

namespace carillon {
namespace {

template <typename T>
std::optional<T> whole_text_as(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> as_bool(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return std::nullopt;
}

}  // namespace

bool is_bool(const std::string& text) { return as_bool(text).has_value(); }

bool parse_bool(const std::string& text) {
  const std::optional<bool> value = as_bool(text);
  if (!value) throw ValueExpected{"true or false"};
  return *value;
}

std::int64_t parse_integer(const std::string& text, std::int64_t lowest, std::int64_t highest) {
  const std::optional<std::int64_t> value = whole_text_as<std::int64_t>(text);
  const bool has_digits_only = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (value ? *value > highest : has_digits_only) {
    throw ValueExpected{fmt::format("a whole number of at most {}", highest)};
  }
  if (!value || *value < lowest) throw ValueExpected{fmt::format("a whole number of at least {}", lowest)};
  return *value;
}

std::uint64_t parse_unsigned(const std::string& text) {
  const std::optional<std::uint64_t> value = whole_text_as<std::uint64_t>(text);
  if (!value) throw ValueExpected{"a whole number from 0 to 2^64 - 1"};
  return *value;
}

double parse_number(const std::string& text, OptionSet::Interval interval) {
  const std::optional<double> value = number_of(text);
  using enum OptionSet::Interval;
  if (!value || std::isnan(*value)) throw ValueExpected{"a number"};
  if (!std::isfinite(static_cast<float>(*value))) throw ValueExpected{"a number from -3.4e38 to 3.4e38 (float32)"};
  if (interval == positive && !(static_cast<float>(*value) > 0.0f)) throw ValueExpected{"a number above 0"};
  if (interval == not_negative && !(*value >= 0.0)) throw ValueExpected{"a number of at least 0"};
  if (interval == below_one && !(*value >= 0.0 && static_cast<float>(*value) < 1.0f))
    throw ValueExpected{"a number from 0 to below 1"};
  if (interval == unit && !(*value >= 0.0 && *value <= 1.0)) throw ValueExpected{"a number from 0 to 1"};
  return *value;
}

std::string parse_text(const std::string& text) {
  if (text.empty()) throw ValueExpected{"a text of at least one character"};
  return text;
}

std::size_t parse_choice(const std::string& text, const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), parse_text(text));
  if (found == choices.end()) throw ValueExpected{fmt::format("one of {}", fmt::join(choices, ", "))};
  return static_cast<std::size_t>(found - choices.begin());
}

namespace {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment).
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& here = edits[i][j];
      here = i == 0 || j == 0 ? i + j : std::min(edits[i - 1][j], edits[i][j - 1]) + 1;
      if (i == 0 || j == 0) continue;
      here = std::min(here, edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) here = std::min(here, edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string nearest(const std::string& text, const std::vector<std::string>& names) {
  std::size_t fewest = std::min<std::size_t>(text.size() / 3, 3) + 1;
  std::string near;
  for (const std::string& name : names) {
    const std::size_t longer = std::max(text.size(), name.size()), shorter = std::min(text.size(), name.size());
    if (longer - shorter >= fewest) continue;  // each edit changes the length by one at most
    const std::size_t edits = edits_between(text, name);
    if (edits < fewest) std::tie(fewest, near) = std::pair(edits, name);
  }
  return near;
}

// Option values that are lists: milestones, schedule points, parameter groups.

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

/// Whether a line of a --config file can hold the pattern.
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
