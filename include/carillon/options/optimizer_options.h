// OptimizerOptions: how many updates a training applies, and by which rule and learning rates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/optim/optimizer_settings.h"
#include "carillon/options/schedule_options.h"

namespace carillon {

struct OptimizerOptions {
  /// Global step at which the training ends. With `epochs`, resolve_epochs sets it once the records are counted.
  std::int64_t max_steps = 1000;
  double epochs = 0.0;              ///< passes over the training records, in place of max_steps; 0: not given
  double regularization = 0.0001;   ///< L2 factor of the regularised weights (NetworkSettings)
  OptimizerSettings update;         ///< rule and constants; settings() sets its learning rate
  ScheduleOptions schedule;         ///< learning rate
  std::vector<std::string> freeze;  ///< patterns of variables that are not trained

  /// Whether the training has steps.
  bool trains() const { return epochs > 0.0 || max_steps > 0; }
  /// `update`, with the learning rate of `schedule` and with one group per pattern of `freeze` before its other groups.
  /// Errors: those of make_schedule.
  OptimizerSettings settings() const;
};

}  // namespace carillon
