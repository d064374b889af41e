// Parses the texts of option values. The whole text must be one value that is within the range of the option.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/optim/parameter_group.h"
#include "carillon/optim/schedule.h"
#include "src/cli/options/option_set.h"

namespace carillon {

// Upper limits of options; larger values can only be mistakes.
inline constexpr std::int64_t max_option_steps = std::int64_t{1} << 53;
inline constexpr std::int64_t max_option_threads = 4096;

/// Exception for a text that is not a value of the option.
struct ValueExpected {
  std::string what;                      ///< the expected value: "a whole number of at least 1"
  std::optional<std::string> text = {};  ///< the wrong one of several texts; nothing: the first
};

bool is_bool(const std::string& text);
bool parse_bool(const std::string& text);
std::int64_t parse_integer(const std::string& text, std::int64_t lowest, std::int64_t highest);
std::uint64_t parse_unsigned(const std::string& text);
double parse_number(const std::string& text, OptionSet::Interval interval);
/// Any text of at least one character.
std::string parse_text(const std::string& text);
/// The index of `text` in `choices`.
std::size_t parse_choice(const std::string& text, const std::vector<std::string>& choices);

/// The name in `names` most similar to the misspelt `text`; empty if no name is similar.
std::string nearest(const std::string& text, const std::vector<std::string>& names);

// Lists. Parsing the result of text_of or texts_of gives the same list.
/// "3,5,8": ascending steps.
std::vector<std::int64_t> parse_milestones(const std::string& text);
/// "0:0.1,20:0.5": ascending steps, each with a learning rate.
std::vector<SchedulePoint> parse_schedule_points(const std::string& text);
std::string text_of(const std::vector<SchedulePoint>& points);
/// Each text: "*/biases: rate=64, decay=0, frozen-until=10, frozen-after=300", with at least one setting.
std::vector<ParameterGroup> parse_groups(const std::vector<std::string>& texts);
std::vector<std::string> texts_of(const std::vector<ParameterGroup>& groups);

}  // namespace carillon
