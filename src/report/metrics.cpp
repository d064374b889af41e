#include "src/report/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/file_tools.h"
#include "src/core/text.h"
#include "src/report/append_log.h"

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

double number_or(const nlohmann::json& object, const char* name, double other) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : other;
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

namespace {

/// The step of a line; none if it is not an object with a step.
std::optional<double> step_of(const nlohmann::json& record) {
  if (!record.is_object()) return std::nullopt;
  const auto step = record.find("step");
  return step != record.end() && step->is_number() ? std::optional(step->get<double>()) : std::nullopt;
}

/// The offset after the last line of a step before `first_step`.
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
  if (type != std::filesystem::file_type::regular) return;  // AppendLog::open reports the error
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
    : log_(std::make_unique<AppendLog>(train_dir / "metrics.jsonl", warn)) {
  try {
    drop_later_lines(train_dir / "metrics.jsonl", first_step);
  } catch (const Error& error) {
    log_->warn(error.what());
    return;  // the file still holds lines of the steps that follow
  }
  log_->open(false);
}

MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(const std::vector<Field>& fields) {
  const std::string line = json_text(fields);
  if (line.size() > LinesFromEnd::max_line_bytes) {
    log_->warn(fmt::format("metrics.jsonl: a line of {} bytes would not be read again", line.size()));
    return;
  }
  log_->append(line + "\n");
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
  } catch (const Error&) {  // as if there were no line
  }
  return std::nullopt;
}

std::vector<StepScore> logged_scores(const std::filesystem::path& train_dir, std::int64_t last_step,
                                     const Score& form) {
  Score unknown = form;
  unknown.value = std::numeric_limits<double>::quiet_NaN();
  const std::string name = score_fields(form, evaluation_prefix).front().name;
  std::vector<StepScore> found;  // from the last line
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      if (line->text.find(name) == std::string::npos) continue;  // most lines are of steps
      const nlohmann::json record = nlohmann::json::parse(line->text, nullptr, false);
      const std::optional<double> of_line = step_of(record);
      if (!of_line || *of_line < 0.0 || *of_line > static_cast<double>(last_step) || !record.contains(name)) continue;
      const auto step = static_cast<std::int64_t>(*of_line);
      if (!found.empty() && found.back().step <= step) continue;
      found.push_back({step, score_in(record, form, evaluation_prefix).value_or(unknown)});
    }
  } catch (const Error&) {  // as if there were no file
    return {};
  }
  return {found.rbegin(), found.rend()};
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
      const double at = number_or(record, "schedule_step", -1.0), seconds = number_or(record, "seconds_used", -1.0),
                   budget = number_or(record, "time_budget", -1.0);
      const bool is_sound =
          step && planned && *step >= 0 && *step <= *planned && at >= 0.0 && seconds >= 0.0 && budget > 0.0;
      if (!is_sound || *step > last_step) continue;
      return PacePoint{
          .step = *step, .schedule_step = at, .last_step = *planned, .seconds = seconds, .time_budget = budget};
    }
  } catch (const Error&) {  // as if there were no file
  }
  return std::nullopt;
}

}  // namespace carillon
