#include "src/train/checkpointing/best_checkpoint.h"

#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/report/metrics.h"

namespace carillon {
namespace {

constexpr const char *prefix = "evaluation ", *records_name = "evaluation record checksum";

nlohmann::json object(const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : nlohmann::json::object();
}

/// Returns the image size in evaluations of pictures, or null if the records are not pictures.
nlohmann::json evaluated_size(const nlohmann::json& run) {
  nlohmann::json size = run.value("eval_image_size", nlohmann::json(0));
  return size == 0 ? run.value("image_size", nlohmann::json()) : size;
}

}  // namespace

RunDescription with_score(RunDescription description, const Score& score) {
  for (const Field& field : score_fields(score, prefix)) description.add(field.name, field.value, Scope::run);
  return description;
}

bool same_evaluation(const std::string& json_before, const RunDescription& now) {
  const nlohmann::json before = object(json_before), present = object(now.json());
  const auto of_both = [&](const auto& value) { return value(before) == value(present); };
  return of_both([](const nlohmann::json& run) { return run.value(records_name, nlohmann::json()); }) &&
         of_both(evaluated_size);
}

std::optional<StepScore> best_score(const std::filesystem::path& train_dir, std::uint64_t max_bytes, const Score& form,
                                    const RunDescription& description,
                                    const std::function<void(const std::string&)>& warn) {
  const std::string replaced = "; the next evaluation takes its place";
  const std::filesystem::path path = best_checkpoint_path(train_dir);
  try {
    const CheckpointState best = read_checkpoint(path, max_bytes);
    if (!same_evaluation(best.options_json, description)) {
      warn(path.string() + ": does not say that it was evaluated on these records at this image size" + replaced);
      return std::nullopt;
    }
    const std::optional<Score> score = score_in(object(best.options_json), form, prefix);
    return score ? std::optional(StepScore{best.global_step, *score}) : std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ExitCode::no_input) warn(error.what() + replaced);
    return std::nullopt;
  }
}

}  // namespace carillon
