// Stores and reads the score of `best.ckpt.h5`. The score is part of the checkpoint's options, under names that begin
// with "evaluation ": "evaluation correct" and "evaluation total" for a classifier.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "carillon/tasks/metric.h"
#include "src/cli/options/run_description.h"
#include "src/report/metrics.h"

namespace carillon {

/// Returns the description of the run with the score added. The best checkpoint stores this description.
RunDescription with_score(RunDescription description, const Score& score);

/// True if a run with the description `json_before` was evaluated on the records of `now`, at the same image size.
bool same_evaluation(const std::string& json_before, const RunDescription& now);

/// Reads the step and the score of the best checkpoint in `train_dir`. The score has the same names as `form`. Returns
/// nullopt if there is no such file. Warns and returns nullopt if the file cannot be read, has more than `max_bytes`
/// bytes, or was not evaluated on the records and at the image size of `description`.
std::optional<StepScore> best_score(const std::filesystem::path& train_dir, std::uint64_t max_bytes, const Score& form,
                                    const RunDescription& description,
                                    const std::function<void(const std::string&)>& warn);

}  // namespace carillon
