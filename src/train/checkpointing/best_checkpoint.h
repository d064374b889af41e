// BestCheckpoint: which precision `best.ckpt.h5` has, in words of its options: "evaluation correct", "evaluation
// total".
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "src/options/run_description.h"
#include "src/report/accuracy.h"

namespace carillon {

/// The description that such a checkpoint bears.
RunDescription with_evaluation(RunDescription description, const Accuracy& precision);

/// Whether a run whose description is `json_before` was evaluated on the records of `now`.
bool same_evaluation_records(const std::string& json_before, const RunDescription& now);

/// The precision of the train directory's best checkpoint, on the evaluation records of `description`; none where it is
/// missing, of other records or, told to `warn`, not to be read, or of more than `max_bytes`.
std::optional<Accuracy> best_checkpoint(const std::filesystem::path& train_dir, std::uint64_t max_bytes,
                                        const RunDescription& description,
                                        const std::function<void(const std::string&)>& warn);

}  // namespace carillon
