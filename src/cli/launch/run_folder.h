// Run folder: the train directory of a run, and the plan that it contains. The plan stores the decisions of `carillon
// train`. If the user repeats `carillon train`, the command continues the plan. The other commands read the plan to
// find the records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

struct TrainingPlan {
  std::string pictures;                 ///< folder of the pictures, as an absolute path
  std::string fingerprint;              ///< PictureIdentity::fingerprint of the folder
  std::string contents;                 ///< PictureIdentity::contents of the folder
  std::string data;                     ///< folder of the records, as an absolute path
  std::vector<std::string> conversion;  ///< options of tfrecord_convert for these records
  std::string from;                     ///< --from as an absolute path; empty: none
  std::string network;
  std::int64_t image_size = 0;       ///< in pixels
  std::int64_t eval_image_size = 0;  ///< in pixels; 0: image_size
  std::int64_t steps = 0;            ///< steps of the whole training
  /// The split of the evaluations during the training: "validation", "test", or "" (there are no evaluations)
  std::string watched;
  std::string evaluated;  ///< the split of the last evaluation; it has the same values as `watched`
  std::int64_t ranks = 1;
  double minutes = 0.0;  ///< the value of --minutes, or the chosen budget; 0: the user chose the number of steps
  double evaluation_seconds = 0.0;  ///< part of `minutes` that is kept for the last evaluation
  std::int64_t views = 0;           ///< views of each picture in the last evaluation; 0: not decided yet
};

/// Returns a text such as "1 minute" or "2.5 minutes".
std::string minutes_text(double minutes);

/// `train_dir/plan.cfg`: the settings that image_train reads with --config.
std::filesystem::path settings_path(const std::filesystem::path& train_dir);

/// Removes an earlier plan and a next plan, and writes `train_dir/plan.cfg`, then `train_dir/plan.json`. A train
/// directory has a plan only if it contains `plan.json`. Errors: io, usage (a text is too long to be read again).
void write_plan(const std::filesystem::path& train_dir, const TrainingPlan& plan, const std::string& settings);

/// Returns the time-budget in `plan.cfg`, or 0 if there is none. Errors: see config_values.
double time_budget_of(const std::filesystem::path& train_dir);

/// Returns the settings in `plan.cfg` with the given time-budget and max-steps. Errors: see config_values.
std::string settings_with_length(const std::filesystem::path& train_dir, std::int64_t max_steps, double time_budget);

/// Writes `plan.json` again after the pictures have moved. Errors: see write_plan.
void update_plan(const std::filesystem::path& train_dir, const TrainingPlan& plan);

/// Writes `train_dir/next-plan.cfg`, then `train_dir/next-plan.json`. If image_train runs with --config next-plan.cfg,
/// it makes these files the plan before its first step (begin_next_plan). Errors: see write_plan.
void write_next_plan(const std::filesystem::path& train_dir, const TrainingPlan& plan, const std::string& settings);

/// Removes the next plan and its settings, if they exist. Returns whether there was a next plan. Errors: io.
bool remove_next_plan(const std::filesystem::path& train_dir);

/// Returns the plan of the directory, or nullopt if the directory has no plan. Errors: data (the contents of plan.json
/// are not a plan), io.
std::optional<TrainingPlan> read_plan(const std::filesystem::path& train_dir);

/// The words of a command: the first word, which is a path, and all other words.
struct Place {
  std::filesystem::path path;
  std::vector<std::string> others;
};

/// Splits the words of `command`. `what`: the name of the first word in messages. Errors: usage (the first word is
/// missing or is an option), no_input (no file or folder has this name).
Place place_in(const std::vector<std::string>& words, const std::string& command, const std::string& what);

/// Returns the path of the HTML page that describes the evaluated network.
std::filesystem::path report_page(const std::filesystem::path& train_dir);

/// Returns the checkpoint for evaluations and predictions, which is the best checkpoint of the train directory. If
/// there is no best checkpoint, returns the directory; other functions then use its newest checkpoint.
std::filesystem::path trained_network(const std::filesystem::path& train_dir);

/// If `place` is a train directory, returns its trained_network. Otherwise returns `place` itself.
std::filesystem::path checkpoint_of(const std::filesystem::path& place);

/// Returns the train directory of `run`. `run`: a train directory, or a checkpoint in a train directory.
std::filesystem::path folder_of(const std::filesystem::path& run);

}  // namespace carillon
