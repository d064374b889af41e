// Texts of option values to values: the whole text must be one value, in range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/app/option_set.h"

namespace carillon {

/// Thrown when a text is not what the option takes: "a whole number of at least 1".
struct ValueExpected {
  std::string what;
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

}  // namespace carillon
