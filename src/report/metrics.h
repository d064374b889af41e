// Writes and reads `metrics.jsonl`: one JSON object per line. Fields: docs/developer-guide/file-formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/report/field.h"

namespace carillon {

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
