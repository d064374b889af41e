#include "src/report/metrics.h"

#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/report/append_log.h"
#include "src/report/score_fields.h"

namespace carillon {
namespace {

std::string read_log(const std::filesystem::path& path) {
  return read_plain_file(path, path.string(), std::numeric_limits<std::size_t>::max());
}

/// Calls `visit(line)` for each whole line, with its newline.
template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    visit(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
}

/// Whether the line holds an object of a step before `first_step`, or an object without a step.
bool keeps(std::string_view line, std::int64_t first_step) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object()) return false;
  const auto step = record.find("step");
  return step == record.end() || !step->is_number() || step->get<double>() < static_cast<double>(first_step);
}

std::string kept_lines(std::string_view text, std::int64_t first_step) {
  std::string kept;
  for_each_line(text, [&](std::string_view line) {
    if (keeps(line, first_step)) kept += line;
  });
  return kept;
}

void drop_later_lines(const std::filesystem::path& path, std::int64_t first_step) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::none) {
    fail(ExitCode::io, "cannot look at {}: {}", path.string(), error.message());
  }
  if (type != std::filesystem::file_type::regular) return;  // AppendLog::open reports the error
  const auto old_text = read_log(path);
  const auto kept = kept_lines(old_text, first_step);
  if (kept == old_text) return;
  if (old_text.starts_with(kept) && ::truncate(path.c_str(), static_cast<off_t>(kept.size())) == 0) return;
  write_file_atomically(path, std::as_bytes(std::span(kept)));
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

void MetricsWriter::write(const std::vector<Field>& fields) { log_->append(json_text(fields) + "\n"); }

std::optional<Score> logged_score(const std::filesystem::path& train_dir, std::int64_t step, const Score& form) {
  std::optional<Score> found;
  const auto read_line = [&](std::string_view line) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || record.value("step", nlohmann::json()) != step) return;
    if (const std::optional<Score> score = score_in(record, form, evaluation_prefix)) found = score;
  };
  try {
    for_each_line(read_log(train_dir / "metrics.jsonl"), read_line);
  } catch (const Error&) {
    return std::nullopt;
  }
  return found;
}

}  // namespace carillon
