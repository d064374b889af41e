// Writes and reads `metrics.jsonl`: one JSON object per line. Fields: docs/developer-guide/file-formats.md. It also
// reads learning curves from this file.
//
// A Field is a named value. The options that a checkpoint stores are also fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "carillon/core/file.h"
#include "carillon/tasks/metric.h"

namespace carillon {

using FieldValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>, std::vector<double>>;

/// A named value in a log line or in the description of a run.
struct Field {
  std::string name;
  FieldValue value;
};

/// Returns `value` as JSON. null replaces NaN and infinities, and U+FFFD replaces bytes that are not UTF-8.
std::string json_text(const FieldValue& value);

/// Returns a JSON object on one line. Its names are in alphabetical order.
std::string json_text(const std::vector<Field>& fields);

// Functions that convert scores to and from named fields of a JSON object. metrics.jsonl and the options in a
// checkpoint contain such fields.

/// Returns the fields that store a score: if the score is a ratio, its two counts, otherwise its value. The names begin
/// with `prefix`.
std::vector<Field> score_fields(const Score& score, std::string_view prefix);

/// Reads the fields that `score_fields` writes for a score. The score has the same names as `form`. Returns nullopt if
/// a field is missing or not a number, or if the denominator of the ratio is 0.
std::optional<Score> score_in(const nlohmann::json& object, const Score& form, std::string_view prefix);

/// Returns the counts of a ratio, such as "9840/10000", or an empty text if the score is not a ratio.
std::string counts_text(const Score& score);

/// A log file to which the program appends whole entries. An error of the file never stops the run. EventWriter also
/// uses this class.
class AppendLog {
 public:
  /// Calls `warn` with the first error that occurs when the file is opened or written.
  AppendLog(std::filesystem::path path, std::function<void(const std::string&)> warn);

  /// Opens the file, and creates it if it is missing. With `exclusive`, the file must be missing. Returns 0 or errno.
  /// EEXIST causes no warning.
  int open(bool exclusive);

  /// Appends `bytes` in one write. Returns true if all bytes are in the file. After an error, none of the bytes remain
  /// in the file, and the next append tries to write its own bytes.
  bool append(std::string_view bytes);

  /// The first call passes the cause to `warn`. Later calls do nothing.
  void warn(const std::string& cause);

 private:
  void warn(std::string_view action, int error);

  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
  Descriptor descriptor_;
};

class MetricsWriter {
 public:
  /// Appends to `train_dir/metrics.jsonl`. A resumed run first cuts the file after the last line of a step below
  /// `first_step`. The cut drops the lines that the stopped run wrote after its checkpoint, and an incomplete last
  /// line. If the file cannot be written, `warn` is called once and training continues. If the file cannot be cut,
  /// `write` does nothing.
  MetricsWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
                std::function<void(const std::string&)> warn);

  /// Appends one line to the file immediately. One of the fields must be "step".
  void write(const std::vector<Field>& fields);

 private:
  AppendLog log_;
};

/// True if `train_dir/metrics.jsonl` has the loss of `step` or of a later step, or if the file cannot be read.
bool logs_loss_from(const std::filesystem::path& train_dir, std::int64_t step);

/// The score of an evaluation.
struct StepScore {
  std::int64_t step = 0;
  Score score;
};

/// The prefix of the names of an evaluation's fields.
inline constexpr std::string_view evaluation_prefix = "eval_";

/// The name of the field that stores the duration of an evaluation in the evaluation's line, in seconds.
inline constexpr std::string_view evaluation_seconds_name = "evaluation_seconds";

/// Reads the duration of the last evaluation, in seconds, from `train_dir/metrics.jsonl`. Returns nullopt if no line
/// has the duration or the file cannot be read.
std::optional<double> logged_evaluation_seconds(const std::filesystem::path& train_dir);

/// Reads the score of the last evaluation of `step` from `train_dir/metrics.jsonl`. The score has the same names as
/// `form`. Returns nullopt if there is no such line or the file cannot be read.
std::optional<Score> logged_score(const std::filesystem::path& train_dir, std::int64_t step, const Score& form);

/// Reads the scores of all evaluations up to `last_step` from `train_dir/metrics.jsonl`, in the order of the file. The
/// scores have the same names as `form`. A score that is not a number becomes NaN. If a step has several lines, only
/// the last line counts. Returns an empty list if the file cannot be read.
std::vector<StepScore> logged_scores(const std::filesystem::path& train_dir, std::int64_t last_step, const Score& form);

/// A point from which a run with --time-budget continues at a new pace. The run moves evenly through the rest of its
/// schedule, so that the schedule ends at `last_step`.
struct PacePoint {
  std::int64_t step = 0;
  double schedule_step = 0.0;  ///< position in the schedule at `step`
  std::int64_t last_step = 0;  ///< global step at which the run will end
  double seconds = 0.0;        ///< time that the run used before `step`, over all its starts
  double time_budget = 0.0;    ///< --time-budget
};

/// Returns the fields of the point's line in metrics.jsonl.
std::vector<Field> pace_fields(const PacePoint& point);

/// Reads the last pace point up to `last_step` from `train_dir/metrics.jsonl`. Returns nullopt if there is none or the
/// file cannot be read.
std::optional<PacePoint> logged_pace(const std::filesystem::path& train_dir, std::int64_t last_step);

// Learning curves: the losses and scores of a training by step, read from its metrics.jsonl.

struct CurvePoint {
  double step = 0.0, value = 0.0;
};

struct LearningCurves {
  struct Evaluation {
    std::int64_t step = 0;
    std::map<std::string, double, std::less<>> scores = {};  ///< the values of each score, by the score's name in logs
                                                             ///< (Score::logged_as)
  };

  std::vector<CurvePoint> loss;  ///< training loss without L2; if a line does not contain the task's loss, the loss
                                 ///< with L2
  std::vector<CurvePoint> learning_rate;
  std::vector<Evaluation> evaluations;

  bool is_empty() const { return loss.empty() && evaluations.empty(); }
  /// Returns the points of the evaluation score with this name.
  std::vector<CurvePoint> of_score(std::string_view logged_name) const;
};

/// Reads the curves from `train_dir/metrics.jsonl`, in the order of the file. Returns empty curves if the file is
/// missing or cannot be read. `loss_name`: Task::loss_name. Skips damaged lines and values that are not finite. If the
/// file has several evaluations of a step, only the last one counts.
LearningCurves read_learning_curves(const std::filesystem::path& train_dir, std::string_view loss_name);

/// Reduces a curve to at most `count` points: each new point is the mean of neighbouring points.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t count);

}  // namespace carillon
