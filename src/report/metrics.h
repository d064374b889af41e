// Writes and reads `metrics.jsonl`: one JSON object per line. Fields: docs/developer-guide/file-formats.md.
//
// A Field is a named value. The options that a checkpoint stores are fields, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "carillon/tasks/metric.h"

namespace carillon {

using FieldValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>, std::vector<double>>;

/// A named value in a log line or in the description of a run.
struct Field {
  std::string name;
  FieldValue value;
};

/// `value` as JSON. null replaces NaN and infinities; U+FFFD replaces bytes that are not UTF-8.
std::string json_text(const FieldValue& value);

/// A JSON object on one line with its names in alphabetical order.
std::string json_text(const std::vector<Field>& fields);

// Scores as named fields of a JSON object, for metrics.jsonl and for the options in a checkpoint.

/// The fewest fields that hold a score: the counts of its ratio, else its value. Names begin with `prefix`.
std::vector<Field> score_fields(const Score& score, std::string_view prefix);

/// Reads the fields that `score_fields` writes for a score with the names of `form`. None: a field is missing or not a
/// number, or the ratio is of nothing.
std::optional<Score> score_in(const nlohmann::json& object, const Score& form, std::string_view prefix);

/// The counts of a score's ratio: "9840/10000"; empty: it is not a ratio.
std::string counts_text(const Score& score);

class MetricsWriter {
 public:
  /// Appends to `train_dir/metrics.jsonl`. A resumed run first cuts the file after the last line of a step below
  /// `first_step`. So it drops the lines that the stopped run wrote after its checkpoint, and a cut last line. If the
  /// file cannot be written, `warn` hears it once and training continues. If the later lines cannot be dropped, `write`
  /// does nothing.
  MetricsWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
                std::function<void(const std::string&)> warn);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Appends one line to the file immediately; one of the fields is "step".
  void write(const std::vector<Field>& fields);

 private:
  std::unique_ptr<class AppendLog> log_;
};

/// The score of an evaluation.
struct StepScore {
  std::int64_t step = 0;
  Score score;
};

/// The prefix of the names of an evaluation's fields.
inline constexpr std::string_view evaluation_prefix = "eval_";

/// The score, with the names of `form`, of the last evaluation of `step` in `train_dir/metrics.jsonl`. None: there is
/// no such line, or the file cannot be read.
std::optional<Score> logged_score(const std::filesystem::path& train_dir, std::int64_t step, const Score& form);

/// The scores of all evaluations in `train_dir/metrics.jsonl` up to `last_step`, with the names of `form`, in
/// their order. A score that is not a number is NaN. Of several lines of a step, only the last counts. Empty
/// if the file cannot be read.
std::vector<StepScore> logged_scores(const std::filesystem::path& train_dir, std::int64_t last_step, const Score& form);

}  // namespace carillon
