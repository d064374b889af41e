// Saves the last completed step when an error ends the run. One rank does it without the others.
#pragma once

#include <string>

#include "carillon/options/checkpoint_options.h"
#include "carillon/options/model_options.h"
#include "src/options/run_description.h"
#include "src/step/tower.h"
#include "src/train/loop/run_position.h"

namespace carillon {

struct LastStep {
  const CheckpointOptions& options;
  const ModelOptions& model;
  const RunDescription& description;
  RunPosition position;
  const Tower& tower;  ///< must satisfy holds_whole_step()
  bool may_exist;      ///< the run has begun to write this checkpoint before
  bool must_lock;      ///< rank 0 has ended, and with it the run's lock of the train directory
};

/// Writes a checkpoint of the step, unless the train directory does not exist on this host. Returns text for the error
/// line: "; saved step 812 in DIR/model.ckpt-812.h5", or why it is not saved.
std::string save_last_step(const LastStep& last) noexcept;

}  // namespace carillon
