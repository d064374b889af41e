// Texts of option values to values: the whole text must be one value, in range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/optim/parameter_group.h"
#include "carillon/optim/schedule.h"
#include "src/app/option_set.h"

namespace carillon {

/// Steps beyond which an option can only be a mistake.
inline constexpr std::int64_t max_option_steps = std::int64_t{1} << 53;

/// Thrown when a text is not what the option takes: "a whole number of at least 1".
struct ValueExpected {
  std::string what;
  std::string text = {};  ///< which of several it is; empty: the first
};

bool is_bool(const std::string& text);
bool parse_bool(const std::string& text);
std::int64_t parse_integer(const std::string& text, std::int64_t lowest, std::int64_t highest);
std::uint64_t parse_unsigned(const std::string& text);
double parse_number(const std::string& text, OptionSet::Interval interval);
/// Any text but an empty one.
std::string parse_text(const std::string& text);
/// Its place among `choices`.
std::size_t parse_choice(const std::string& text, const std::vector<std::string>& choices);

/// That of `names` that `text` is likely a slip of; empty where none is near.
std::string nearest(const std::string& text, const std::vector<std::string>& names);

// Those of optimiser and schedule, each with a text that makes the same again (src/app/list_values.cpp).
/// "3,5,8": growing steps.
std::vector<std::int64_t> parse_milestones(const std::string& text);
/// "0:0.1,20:0.5": growing steps with a rate each.
std::vector<SchedulePoint> parse_schedule_points(const std::string& text);
std::string text_of(const std::vector<SchedulePoint>& points);
/// "*/biases: rate=64, decay=0, frozen-until=10, frozen-after=300" each; with at least one of the settings.
std::vector<ParameterGroup> parse_groups(const std::vector<std::string>& texts);
std::vector<std::string> texts_of(const std::vector<ParameterGroup>& groups);

}  // namespace carillon
