// Trial: a few steps of a training, to measure its speed on the real records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/processes/mpi_launch.h"

namespace carillon {

struct TrialSpeed {
  double start_seconds = 0.0;  ///< duration of the program without the steps
  double step_seconds = 0.0;   ///< median without the first steps
};

struct Trial {
  std::string settings;  ///< options of the training, for --config
  std::string data;      ///< pattern of the record files
  std::vector<std::string>
      options;  ///< further options of image_train; those of its length, places and evaluations are ignored
  std::int64_t steps;
  std::filesystem::path directory;  ///< for its files; removed before and after
};

/// Trains some steps with image_train. Returns nothing if a stop signal arrived. Errors: those of image_train,
/// after printing its message; io.
std::optional<TrialSpeed> try_training(const Launch& launch, const Trial& trial);

}  // namespace carillon
