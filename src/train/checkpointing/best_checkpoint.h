// The score of `best.ckpt.h5`, which the checkpoint's options hold under names that begin with "evaluation ":
// "evaluation correct" and "evaluation total" for a classifier.
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

/// The description that the best checkpoint holds.
RunDescription with_score(RunDescription description, const Score& score);

/// Whether a run with the description `json_before` was evaluated on the records of `now`, at the same image size.
bool same_evaluation(const std::string& json_before, const RunDescription& now);

/// Step and score, with the names of `form`, of the best checkpoint in `train_dir`. None: there is no such file, or,
/// after a warning, it does not say that it was evaluated on the records and at the size of `description`, cannot be
/// read, or has more than `max_bytes`.
std::optional<StepScore> best_score(const std::filesystem::path& train_dir, std::uint64_t max_bytes, const Score& form,
                                    const RunDescription& description,
                                    const std::function<void(const std::string&)>& warn);

}  // namespace carillon
