#include "carillon/report/metrics.h"

#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/report/append_log.h"

namespace carillon {
namespace {

/// A whole line that holds an object of a step before `first_step`, or one without a step.
bool keeps(std::string_view line, std::int64_t first_step) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object()) return false;
  const auto step = record.find("step");
  return step == record.end() || !step->is_number() || step->get<double>() < static_cast<double>(first_step);
}

std::string kept_lines(std::string_view text, std::int64_t first_step) {
  std::string kept;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    if (keeps(text.substr(0, end), first_step)) kept += text.substr(0, end + 1);
    text.remove_prefix(end + 1);
  }
  return kept;
}

void drop_later_lines(const std::filesystem::path& path, std::int64_t first_step) {
  if (std::error_code none; !std::filesystem::is_regular_file(path, none))
    return;  // what is wrong, opening it to append will tell
  const auto old_text = read_plain_file(path, path.string(), std::numeric_limits<std::size_t>::max());
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
    return;  // what would be appended stands there already
  }
  log_->open(false);
}

MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(const std::vector<Field>& fields) { log_->append(json_text(fields) + "\n"); }

}  // namespace carillon
