#include "src/train/checkpointing/best_checkpoint.h"

#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {
namespace {

constexpr const char *correct_name = "evaluation correct", *total_name = "evaluation total",
                     *records_name = "evaluation record checksum";

nlohmann::json object(const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : nlohmann::json::object();
}

std::int64_t count(const nlohmann::json& options, const char* name) {
  const auto found = options.find(name);
  return found != options.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

RunDescription with_evaluation(RunDescription description, const Accuracy& precision) {
  description.add(correct_name, precision.correct, Scope::run);
  description.add(total_name, precision.total, Scope::run);
  return description;
}

bool same_evaluation_records(const std::string& json_before, const RunDescription& now) {
  const auto records = [](const std::string& json) { return object(json).value(records_name, nlohmann::json()); };
  return records(json_before) == records(now.json());
}

std::optional<Accuracy> best_checkpoint(const std::filesystem::path& train_dir, std::uint64_t max_bytes,
                                        const RunDescription& description,
                                        const std::function<void(const std::string&)>& warn) {
  const std::filesystem::path path = best_checkpoint_path(train_dir);
  try {
    const std::string json_before = read_checkpoint(path, max_bytes).options_json;
    const nlohmann::json before = object(json_before);
    const Accuracy precision{.correct = count(before, correct_name), .total = count(before, total_name)};
    const bool counts = precision.total > 0 && same_evaluation_records(json_before, description);
    return counts ? std::optional(precision) : std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ExitCode::no_input) warn(fmt::format("{}; the next evaluation takes its place", error.what()));
    return std::nullopt;
  }
}

}  // namespace carillon
