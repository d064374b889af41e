// RunCheckpoints: what rank 0 saves of a run, and when: a state a step or a time, the best evaluation's besides.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "carillon/core/error.h"
#include "carillon/options/checkpoint_options.h"
#include "carillon/options/model_options.h"
#include "src/options/run_description.h"
#include "src/report/accuracy.h"
#include "src/step/tower.h"
#include "src/train/checkpointing/checkpoint_saver.h"
#include "src/train/control/control_flags.h"
#include "src/train/loop/run_position.h"

namespace carillon {

class RunCheckpoints {
 public:
  /// `warn` is told lines. References outlive this.
  RunCheckpoints(const CheckpointOptions& options, const ModelOptions& model, const RunDescription& description,
                 std::function<void(const std::string&)> warn);

  /// `steps`: to be trained. `evaluates`: the run has evaluations.
  void check_space(std::int64_t steps, bool evaluates, const Tower& tower) const;
  /// As Recorder's of the same names.
  void save(const RunPosition& position, const Tower& tower);
  void keep_if_best(const RunPosition& position, const Accuracy& precision, const Tower& tower);
  /// Whether no state of an evaluation of that precision is left to be kept.
  bool has_kept(const Accuracy& precision, const Tower& tower);
  ControlFlags look();
  /// From here on the time since the last checkpoint counts.
  void start_clock() { saved_at_ = Clock::now(); }
  /// Waits until all is on disk. Errors: io, with ExitCode::io that of the checkpoints that kept failing.
  void finish(const RunPosition& position, ExitCode code);

 private:
  using Clock = std::chrono::steady_clock;

  CheckpointState state(const RunPosition& position, const Tower& tower, std::string options_json) const;
  /// The error of the checkpoints that kept failing, if they did.
  const std::optional<Error>& given_up() const;
  bool is_due() const;

  const CheckpointOptions& options_;
  const ModelOptions& model_;
  const RunDescription& description_;
  std::function<void(const std::string&)> warn_;
  CheckpointSaver of_steps_, of_best_;
  std::optional<Accuracy> best_;
  Clock::time_point saved_at_ = Clock::now();
};

}  // namespace carillon
