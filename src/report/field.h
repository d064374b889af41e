// Field: a named value of a log line or of a run's description, and its text as JSON.
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

/// `value` as JSON. For what JSON lacks, null stands for NaN and infinities, U+FFFD for bytes that are not UTF-8.
std::string json_text(const FieldValue& value);

/// A JSON object on one line, its names in alphabetical order.
std::string json_text(const std::vector<Field>& fields);

}  // namespace carillon
