// CheckpointOptions: the train directory, where a run starts, and when it saves and stops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carillon {

/// Whether a run continues from the newest checkpoint of its train directory.
enum class ResumeMode {
  automatic,  ///< if there is one
  never,      ///< refuse a train directory with a checkpoint
  require     ///< refuse a train directory without one
};

struct CheckpointOptions {
  std::string train_dir;  ///< directory for checkpoints and logs
  ResumeMode resume = ResumeMode::automatic;
  bool fresh = false;                           ///< remove checkpoints and logs from train_dir first
  std::string init_from;                        ///< checkpoint or train directory with initial variables; empty: none
  std::vector<std::string> init_exclude;        ///< patterns of variables and buffers that are not taken from init_from
  std::int64_t checkpoint_every = 1000;         ///< steps; 0: at the end only
  std::int64_t checkpoint_every_seconds = 300;  ///< 0: by steps only
  std::int64_t keep_checkpoints = 5;            ///< newest checkpoints to keep; 0: all
  std::int64_t keep_every = 0;                  ///< steps between checkpoints to keep in addition; 0: none
  bool keep_best = true;                        ///< keep the state of the best evaluation
  std::int64_t checkpoint_failures = 10;        ///< consecutive failures that a run survives
  std::string time_limit;                       ///< seconds, or "slurm": until the job's end; empty: no limit
  std::int64_t time_margin = 60;                ///< seconds before time_limit at which a run saves and exits
};

}  // namespace carillon
