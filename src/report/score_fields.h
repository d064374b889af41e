// Scores as named fields of a JSON object, for metrics.jsonl and for the options in a checkpoint.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/report/field.h"

namespace carillon {

/// The fewest fields that hold a score: the counts of its ratio, else its value. Names begin with `prefix`.
std::vector<Field> score_fields(const Score& score, std::string_view prefix);

/// Reads the fields that `score_fields` writes for a score with the names of `form`. None: a field is missing or not a
/// number, or the ratio is of nothing.
std::optional<Score> score_in(const nlohmann::json& object, const Score& form, std::string_view prefix);

/// The counts of a score's ratio: "9840/10000"; empty: it is not a ratio.
std::string counts_text(const Score& score);

}  // namespace carillon
