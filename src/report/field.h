// Field: a named value in a log line or in the description of a run, and its text as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace carillon {

using FieldValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>, std::vector<double>>;

struct Field {
  std::string name;
  FieldValue value;
};

/// `value` as JSON. null replaces NaN and infinities; U+FFFD replaces bytes that are not UTF-8.
std::string json_text(const FieldValue& value);

/// A JSON object on one line with its names in alphabetical order.
std::string json_text(const std::vector<Field>& fields);

}  // namespace carillon
