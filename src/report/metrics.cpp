#include "src/report/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/file_tools.h"
#include "src/core/text.h"

namespace carillon {
namespace {

nlohmann::json json_of(const FieldValue& value) {
  return std::visit([](const auto& held) { return nlohmann::json(held); }, value);
}

std::string text_of(const nlohmann::json& json) {
  return printable_json(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::string json_text(const FieldValue& value) { return text_of(json_of(value)); }

std::string json_text(const std::vector<Field>& fields) {
  nlohmann::json object = nlohmann::json::object();
  for (const Field& field : fields) object[field.name] = json_of(field.value);
  return text_of(object);
}

namespace {

std::string name_of(std::string_view prefix, const std::string& name) { return std::string(prefix) + name; }

std::optional<std::int64_t> count_in(const nlohmann::json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

std::optional<double> number_in(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

}  // namespace

std::vector<Field> score_fields(const Score& score, std::string_view prefix) {
  if (!score.ratio) return {{name_of(prefix, score.logged_as()), score.value}};
  return {{name_of(prefix, score.ratio->part_name), score.ratio->part},
          {name_of(prefix, score.ratio->whole_name), score.ratio->whole}};
}

std::optional<Score> score_in(const nlohmann::json& object, const Score& form, std::string_view prefix) {
  if (!object.is_object()) return std::nullopt;
  Score score = form;
  if (!score.ratio) {
    const auto found = object.find(name_of(prefix, score.logged_as()));
    if (found == object.end() || !found->is_number()) return std::nullopt;
    score.value = found->get<double>();
    return score;
  }
  const auto part = count_in(object, name_of(prefix, score.ratio->part_name));
  const auto whole = count_in(object, name_of(prefix, score.ratio->whole_name));
  if (!part || !whole || *whole <= 0) return std::nullopt;
  score.ratio->part = *part;
  score.ratio->whole = *whole;
  score.value = score.ratio->value();
  return score;
}

std::string counts_text(const Score& score) {
  return score.ratio ? fmt::format("{}/{}", score.ratio->part, score.ratio->whole) : "";
}

AppendLog::AppendLog(std::filesystem::path path, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

int AppendLog::open(bool exclusive) {
  // O_NONBLOCK: opening a FIFO must not wait for a reader.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | (exclusive ? O_EXCL : 0);
  descriptor_ = Descriptor(::open(path_.c_str(), flags, 0666));
  struct stat status {};
  const bool is_known = descriptor_ && ::fstat(descriptor_.get(), &status) == 0;
  const int error = is_known ? 0 : errno;
  const bool is_file = is_known && S_ISREG(status.st_mode);
  if (is_file || error == EEXIST) return error;
  descriptor_ = Descriptor();
  if (error == 0 || error == ENXIO) {  // ENXIO: the file is a FIFO without a reader
    warn(fmt::format("{}: is not a regular file", path_.string()));
  } else {
    warn("open", error);
  }
  return error != 0 ? error : EINVAL;
}

bool AppendLog::append(std::string_view bytes) {
  if (!descriptor_) return false;
  struct stat before {};
  if (::fstat(descriptor_.get(), &before) != 0) {
    warn("write", errno);
    return false;
  }
  const int error = write_all(descriptor_.get(), std::as_bytes(std::span(bytes)));
  if (error == 0) return true;
  // Removes the incomplete entry. Otherwise readers would stop there and miss all later entries.
  if (::ftruncate(descriptor_.get(), before.st_size) != 0) descriptor_ = Descriptor();
  warn("write", error);
  return false;
}

void AppendLog::warn(const std::string& cause) {
  if (!warned_ && warn_) warn_(cause + "; continuing without it");
  warned_ = true;
}

void AppendLog::warn(std::string_view action, int error) {
  warn(fmt::format("cannot {} {}: {}", action, path_.string(), errno_text(error)));
}

namespace {

/// Returns the step of a line. Returns nullopt if the line is not an object with a step.
std::optional<double> step_of(const nlohmann::json& record) {
  return record.is_object() ? number_in(record, "step") : std::nullopt;
}

/// Returns the offset at which the last line of a step before `first_step` ends.
std::uint64_t end_of_earlier_lines(const std::filesystem::path& path, std::int64_t first_step) {
  if (first_step <= 0) return 0;
  LinesFromEnd lines(path);
  while (const auto line = lines.next()) {
    const std::optional<double> step = step_of(nlohmann::json::parse(line->text, nullptr, false));
    if (step && *step < static_cast<double>(first_step)) return line->end_byte;
  }
  return 0;
}

void drop_later_lines(const std::filesystem::path& path, std::int64_t first_step) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::none) {
    fail(ExitCode::io, "cannot look at {}: {}", path.string(), error.message());
  }
  if (type != std::filesystem::file_type::regular) return;  // the error is ignored, because AppendLog::open reports it
  const std::uint64_t kept_bytes = end_of_earlier_lines(path, first_step);
  if (std::filesystem::file_size(path, error) == kept_bytes && !error) return;
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(kept_bytes)) != 0) {
    fail(ExitCode::io, "cannot cut {}: {}", path.string(), errno_text(errno));
  }
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
                             std::function<void(const std::string&)> warn)
    : log_(train_dir / "metrics.jsonl", std::move(warn)) {
  try {
    drop_later_lines(train_dir / "metrics.jsonl", first_step);
  } catch (const Error& error) {
    log_.warn(error.what());
    return;  // does not open the file, which still contains lines of steps that this run will repeat
  }
  log_.open(false);
}

void MetricsWriter::write(const std::vector<Field>& fields) {
  const std::string line = json_text(fields);
  if (line.size() > LinesFromEnd::max_line_bytes) {
    log_.warn(fmt::format("metrics.jsonl: a line of {} bytes would not be read again", line.size()));
    return;
  }
  log_.append(line + "\n");
}

bool logs_loss_from(const std::filesystem::path& train_dir, std::int64_t step) {
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      const nlohmann::json record = nlohmann::json::parse(line->text, nullptr, false);
      const std::optional<double> of_line = step_of(record);
      if (of_line && record.contains("loss")) return *of_line >= static_cast<double>(step);
    }
    return false;
  } catch (const Error&) {
    return true;
  }
}

std::optional<Score> logged_score(const std::filesystem::path& train_dir, std::int64_t step, const Score& form) {
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      const nlohmann::json record = nlohmann::json::parse(line->text, nullptr, false);
      const std::optional<double> of_line = step_of(record);
      if (of_line && *of_line < static_cast<double>(step)) return std::nullopt;
      if (of_line != static_cast<double>(step)) continue;
      if (const std::optional<Score> score = score_in(record, form, evaluation_prefix)) return score;
    }
  } catch (const Error&) {  // if the file cannot be read, it counts as a file without the score
  }
  return std::nullopt;
}

std::vector<StepScore> logged_scores(const std::filesystem::path& train_dir, std::int64_t last_step,
                                     const Score& form) {
  Score unknown = form;
  unknown.value = std::numeric_limits<double>::quiet_NaN();
  const std::string name = score_fields(form, evaluation_prefix).front().name;
  std::vector<StepScore> found;  // the scores, from the last line of the file to the first line
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      // Skips lines that cannot contain the score without parsing them, because most lines describe steps and not
      // evaluations.
      if (line->text.find(name) == std::string::npos) continue;
      const nlohmann::json record = nlohmann::json::parse(line->text, nullptr, false);
      const std::optional<double> of_line = step_of(record);
      if (!of_line || *of_line < 0.0 || *of_line > static_cast<double>(last_step) || !record.contains(name)) continue;
      const auto step = static_cast<std::int64_t>(*of_line);
      if (!found.empty() && found.back().step <= step) continue;
      found.push_back({step, score_in(record, form, evaluation_prefix).value_or(unknown)});
    }
  } catch (const Error&) {  // if the file cannot be read, it counts as a missing file
    return {};
  }
  return {found.rbegin(), found.rend()};
}

std::optional<double> logged_evaluation_seconds(const std::filesystem::path& train_dir) {
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      if (line->text.find(evaluation_seconds_name) == std::string::npos) continue;
      const nlohmann::json record = nlohmann::json::parse(line->text, nullptr, false);
      const std::optional<double> seconds =
          record.is_object() ? number_in(record, evaluation_seconds_name) : std::nullopt;
      if (seconds && *seconds >= 0.0) return seconds;
    }
  } catch (const Error&) {  // an unreadable file counts as a missing file
  }
  return std::nullopt;
}

std::vector<Field> pace_fields(const PacePoint& point) {
  return {{"step", point.step},
          {"schedule_step", point.schedule_step},
          {"planned_steps", point.last_step},
          {"seconds_used", point.seconds},
          {"time_budget", point.time_budget}};
}

std::optional<PacePoint> logged_pace(const std::filesystem::path& train_dir, std::int64_t last_step) {
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      if (line->text.find("planned_steps") == std::string::npos) continue;
      const nlohmann::json record = nlohmann::json::parse(line->text, nullptr, false);
      if (!record.is_object()) continue;
      const std::optional<std::int64_t> step = count_in(record, "step"), planned = count_in(record, "planned_steps");
      const double at = number_in(record, "schedule_step").value_or(-1.0),
                   seconds = number_in(record, "seconds_used").value_or(-1.0),
                   budget = number_in(record, "time_budget").value_or(-1.0);
      const bool is_sound =
          step && planned && *step >= 0 && *step <= *planned && at >= 0.0 && seconds >= 0.0 && budget > 0.0;
      if (!is_sound || *step > last_step) continue;
      return PacePoint{
          .step = *step, .schedule_step = at, .last_step = *planned, .seconds = seconds, .time_budget = budget};
    }
  } catch (const Error&) {  // if the file cannot be read, it counts as a missing file
  }
  return std::nullopt;
}

namespace {

/// Returns the step of a line. Returns nullopt if the step is not a whole number from 0 to 2^53, which a float64
/// represents exactly.
std::optional<std::int64_t> step_in(const nlohmann::json& object) {
  constexpr double most = 9007199254740992.0;  // 2^53
  const std::optional<double> step = number_in(object, "step");
  if (!step || !(*step >= 0.0 && *step <= most) || *step != std::floor(*step)) return std::nullopt;
  return static_cast<std::int64_t>(*step);
}

LearningCurves::Evaluation evaluation_in(const nlohmann::json& line, std::int64_t step) {
  LearningCurves::Evaluation evaluation{.step = step};
  for (const auto& [name, value] : line.items()) {
    if (!name.starts_with(evaluation_prefix) || !value.is_number()) continue;
    evaluation.scores[name.substr(evaluation_prefix.size())] = value.get<double>();
  }
  return evaluation;
}

/// Adds a line. The caller passes the lines from the last line to the first line.
void add(const nlohmann::json& line, std::string_view loss_name, LearningCurves& curves) {
  const std::optional<std::int64_t> step = step_in(line);
  if (!step) return;
  LearningCurves::Evaluation evaluation = evaluation_in(line, *step);
  const bool is_repeated = !curves.evaluations.empty() && curves.evaluations.back().step <= *step;
  if (!evaluation.scores.empty() && !is_repeated) curves.evaluations.push_back(std::move(evaluation));
  const std::optional<double> task = number_in(line, loss_name), total = number_in(line, "loss"),
                              rate = number_in(line, "learning_rate");
  const auto at = static_cast<double>(*step);
  if (task || total) curves.loss.push_back({at, task ? *task : *total});
  if (rate) curves.learning_rate.push_back({at, *rate});
}

}  // namespace

std::vector<CurvePoint> LearningCurves::of_score(std::string_view logged_name) const {
  std::vector<CurvePoint> points;
  for (const Evaluation& evaluation : evaluations) {
    const auto score = evaluation.scores.find(logged_name);
    if (score != evaluation.scores.end()) points.push_back({static_cast<double>(evaluation.step), score->second});
  }
  return points;
}

LearningCurves read_learning_curves(const std::filesystem::path& train_dir, std::string_view loss_name) {
  LearningCurves curves;
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      const nlohmann::json json = nlohmann::json::parse(line->text, nullptr, false);
      if (json.is_object()) add(json, loss_name, curves);
    }
  } catch (const Error&) {  // if the file cannot be read, it counts as a missing file
    return {};
  }
  std::ranges::reverse(curves.loss);
  std::ranges::reverse(curves.learning_rate);
  std::ranges::reverse(curves.evaluations);
  return curves;
}

std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t count) {
  if (points.size() <= count) return points;
  std::vector<CurvePoint> means;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * points.size() / count, end = (i + 1) * points.size() / count;
    CurvePoint sum;
    for (std::size_t at = begin; at < end; ++at) {
      sum.step += points[at].step;
      sum.value += points[at].value;
    }
    const auto number = static_cast<double>(end - begin);
    means.push_back({sum.step / number, sum.value / number});
  }
  return means;
}

}  // namespace carillon
