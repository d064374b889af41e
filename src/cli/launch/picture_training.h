// Picture training: plans a training on a folder of pictures, and makes the commands that carry it out.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/launch/machine_speed.h"
#include "src/cli/launch/picture_cache.h"
#include "src/cli/launch/ranks.h"
#include "src/cli/launch/run_folder.h"
#include "src/cli/launch/training_choice.h"
#include "src/data/convert/convert_pictures.h"

namespace carillon {

/// Options of image_train on the command line that influence the plan.
struct GivenOptions {
  std::optional<std::string> model;
  std::optional<std::int64_t> image_size, eval_image_size, global_batch, max_steps;
  double epochs = 0.0;             ///< value of --epochs; 0: not given
  bool has_preprocessing = false;  ///< --preprocessing is given
  bool has_fit = false;            ///< --fit is given
  bool keeps_best = true;
  bool wants_cpu = false;  ///< true also if the environment requests a CPU

  /// True if the user chose the number of steps.
  bool has_length() const { return max_steps.has_value() || epochs > 0.0; }
};

/// The user's choices. An empty text or the number 0 means the default.
struct TrainingRequest {
  double minutes = 0.0;             ///< time for all work, from the conversion to the last evaluation
  double more_minutes = 0.0;        ///< additional time for the training of an earlier plan
  std::string data_dir, train_dir;  ///< defaults: data/NAME and runs/NAME; NAME is the name of the folder of pictures
  std::int64_t ranks = 0;
  double validation_share = 0.1;
  std::string background;  ///< colour behind transparent pixels
  FolderLayout layout = FolderLayout::automatic;
  std::string targets;               ///< file with the targets of the pictures; empty: the folders are the classes
  std::optional<TargetKind> target;  ///< kind of the targets
  std::string from;                  ///< weights to fine-tune: *.safetensors, *.onnx, a checkpoint or a train directory
  std::vector<std::string> passed;   ///< options for image_train, as words
  GivenOptions given;                ///< those options in `passed` that influence the plan
  bool fresh = false;
  Convert convert;
};

class PictureTraining {
 public:
  using Clock = std::chrono::steady_clock;

  /// `started`: when the program started; the time budget begins at this time. Errors: see look_through;
  /// usage (--from is in the train directory).
  PictureTraining(const std::filesystem::path& folder, TrainingRequest request, Clock::time_point started);

  const std::filesystem::path& train_dir() const { return train_dir_; }

  /// Returns the plan in the train directory, or nullopt if the directory has no plan or no checkpoints. If the
  /// pictures have moved, or only their modification times have changed, the plan is updated. Errors: usage (the
  /// directory holds a training with other pictures, other options of the conversion, or another --from, --model,
  /// --image-size or --eval-image-size); errors of read_plan.
  std::optional<TrainingPlan> earlier_plan();

  /// Adds more_minutes to the time of `plan`, and writes the result as the next plan (write_next_plan). If the training
  /// is finished, training_command will continue from the best state, and will remove later checkpoints before its
  /// first step. Errors: usage (the plan has a number of steps instead of a time, or the training still runs); io;
  /// errors of reading the best state.
  void extend(TrainingPlan& plan);

  /// Measures the speed of the machine, chooses the training, converts the pictures and writes the plan. If `fresh` is
  /// set and there is an earlier training, writes the next plan instead (write_next_plan); training_command then
  /// removes the earlier training before its first step. Returns nullopt if a stop signal arrived. Errors: usage
  /// (--from has weights of another network than --model); the errors of reading --from and of each part.
  std::optional<TrainingPlan> make_plan();

  /// Call it after training_command has ended. If that command did not begin the next plan (because it refused or was
  /// stopped), removes the next plan and returns true.
  bool keeps_earlier_training() const;

  /// Converts the pictures again if another training replaced the records of the plan. Returns false if a stop signal
  /// arrived. Errors: see convert_if_changed.
  bool restore_records(const TrainingPlan& plan);

  std::vector<std::string> training_command(const TrainingPlan& plan) const;
  /// Decides how many views of each picture the last evaluation averages, and stores the number in the plan. The
  /// evaluation averages fewer views if the time is over. A repeated evaluation uses the stored number. Returns a line
  /// about the evaluation. `continued`: the training began before this program started. Errors: see write_plan.
  std::string plan_evaluation(TrainingPlan& plan, bool continued) const;
  /// Returns the command that evaluates the checkpoint `network`. Requires that plan.evaluated is not empty.
  std::vector<std::string> evaluation_command(const TrainingPlan& plan, const std::filesystem::path& network) const;
  /// Returns the commands of the whole training as lines for a shell. The training need not have begun.
  std::string command_lines(const TrainingPlan& plan) const;
  Launch launch(const TrainingPlan& plan) const { return {static_cast<int>(plan.ranks), cores_}; }

 private:
  /// Seconds since the program started.
  double elapsed() const;
  /// True if the step of the newest checkpoint is the last step of the plan.
  bool is_finished(const TrainingPlan& plan) const;
  /// True if the train directory has checkpoints.
  bool holds_training() const;
  /// Returns the number of pictures to train on, without the validation pictures.
  std::int64_t training_pictures() const;
  /// Returns the number of pictures per step, over all ranks.
  std::int64_t batch_size() const;
  std::int64_t ranks() const;
  TrainingChoice choose(MachineSpeed& speed) const;
  /// Reads the network of --from, if it is given.
  void read_weights();
  /// Returns the options of image_train for the weights of --from, or nothing if --from is not given. If --from names
  /// an ONNX file, the options also select its network. plan.cfg does not contain these options, because its format
  /// does not allow every path.
  std::vector<std::string> initial_weights(const TrainingPlan& plan) const;
  /// Returns the conversion of these pictures. `shorter`: value of --resize-shorter for tfrecord_convert.
  Conversion conversion(const std::string& shorter) const;
  /// Checks that the plan belongs to these pictures. If the pictures have moved, updates the plan. Errors: usage (the
  /// plan belongs to other pictures).
  void check_pictures(TrainingPlan& plan);
  const FolderLock& lock_data();
  /// Checks that no training runs in the train directory. `option`: for the message. Errors: usage (image_train still
  /// runs there).
  void check_not_running(const char* option) const;
  /// The length of a training: the user's choice, or the number of steps that fit into the time.
  struct Length {
    std::int64_t steps = 0;     ///< value for --max-steps
    std::int64_t expected = 0;  ///< number of steps that fit into the time at the measured speed
    double seconds = 0.0;       ///< value for --time-budget; 0: none
    double evaluation = 0.0;    ///< value of TrainingPlan::evaluation_seconds
  };
  Length length_of(const TrainingChoice& choice, const CachedRecords& records, const TrainingPlan& plan,
                   MachineSpeed& speed) const;

  TrainingRequest request_;
  std::filesystem::path folder_;  ///< the folder of pictures as the user named it
  PictureFolder pictures_;
  std::filesystem::path train_dir_, data_dir_;
  std::string from_;                     ///< --from as an absolute path; empty: none
  std::optional<GivenNetwork> weights_;  ///< the weights to fine-tune; nullopt if a training continues
  std::optional<FolderLock> data_lock_;
  /// Options of training_command for a next plan; nullopt: training_command uses the plan
  std::optional<std::vector<std::string>> next_plan_options_;
  int cores_, gpus_;  ///< gpus_: 0 if the training computes on CPUs
  Clock::time_point started_;
};

}  // namespace carillon
