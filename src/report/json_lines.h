// JSON lines of a report: an object with one member per line, for people and line-based tools.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "src/report/evaluated_network.h"

namespace carillon {

/// The members that each report begins with: "checkpoint", "model", "global_step" and "values".
nlohmann::ordered_json json_of(const EvaluatedNetwork& network);

/// `object` as text: each member, and each element of a member that is a list, is on its own line. U+FFFD replaces
/// bytes that are not UTF-8.
std::string json_lines(const nlohmann::ordered_json& object);

}  // namespace carillon
