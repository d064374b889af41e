#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/commands/commands.h"
#include "src/cli/launch/mpi_main.h"
#include "src/cli/launch/picture_training.h"
#include "src/cli/launch/ranks.h"
#include "src/cli/launch/restarts.h"
#include "src/cli/launch/run_folder.h"
#include "src/cli/options/option_groups.h"
#include "src/cli/options/option_set.h"
#include "src/comm/mpi/launcher.h"
#include "src/onnx/onnx.h"
#include "src/report/console.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// Options of image_train that this command replaces with its own options of the same name.
const std::vector<std::string> replaced_options{"train-dir", "ranks", "fresh"};

/// All values that the command line sets.
struct CommandLine {
  TrainingRequest request;
  bool is_dry = false;  ///< choose a training and convert the pictures, but do not train
  std::int64_t restarts = 3;
  std::string layout;
  // Options of image_train:
  TrainOptions training;
  PictureOptions pictures;
};

OptionSet option_set(CommandLine& line) {
  constexpr std::int64_t max_ranks = 4096;
  OptionSet set = image_train_options(line.training, line.pictures);
  set.pass_on({.program = "carillon train",
               .purpose = "Trains a network on a folder of pictures, and evaluates it",
               .synopses = {"carillon train FOLDER [OPTION...]"},
               .description = "FOLDER has one folder of pictures per class, or train/ and test/ or val/ with such\n"
                              "folders. Options of image_train are passed on, and override the chosen options."},
              replaced_options);
  set.set_version(version_text("carillon"));
  TrainingRequest& request = line.request;
  set.add("minutes", request.minutes, NumberRange::not_negative,
          "elapsed time for everything, from the measurement of the speed to the last evaluation; the conversion is "
          "always complete, and the training gets at least a quarter of the time; 0: 3 to 30 minutes, by the number of "
          "pictures and the speed");
  set.add(
      "more", request.more_minutes, NumberRange::not_negative,
      "minutes in which an earlier training in the train directory continues; a finished one continues from its best "
      "state, and its later checkpoints are removed before the first step");
  set.add("data-dir", request.data_dir, "folder for the converted pictures; default: data/NAME, with FOLDER's name");
  set.add("train-dir", request.train_dir, "folder for checkpoints and logs; default: runs/NAME");
  set.add("ranks", request.ranks, 0, max_ranks, "number of ranks; 0: one per core, if the batch is large enough");
  set.add("validation-share", request.validation_share, NumberRange::below_one,
          "fraction of each class that is held out for evaluations, if FOLDER has no test/ or val/");
  set.add("background", request.background, "colour behind transparent pixels: white, black or '#rrggbb'");
  set.add("layout", line.layout, layout_help).value_name = "LAYOUT";
  set.add("targets", request.targets,
          "file with the class, the labels or the numbers of each picture, as for tfrecord_convert images; FOLDER may "
          "then have any structure")
      .value_name = "FILE.csv";
  set.add("from", request.from,
          "weights to fine-tune, in place of random ones: FILE.onnx with any network, a file of PyTorch, "
          "NAME.safetensors, a checkpoint or a train directory");
  constexpr std::int64_t max_restarts = 1000000;
  set.add("restarts", line.restarts, 0, max_restarts,
          "restarts in a row without a new checkpoint, if a rank is killed, crashes or hangs; 0: no restart");
  set.add("dry-run", line.is_dry, "choose and convert, print the commands, and do not train");
  set.add("fresh", request.fresh,
          "choose again, and before the first step remove the earlier checkpoints and logs of the train directory");
  return set;
}

/// Waits up to a minute for an earlier run in the train directory. Returns false if a stop signal arrived. Errors:
/// usage (the earlier run has not ended), io.
bool lock_train_dir(const FolderLock& lock, const fs::path& train_dir) {
  constexpr int most_tries = 300;
  constexpr std::chrono::milliseconds pause(200);
  for (int tries = 0; !lock.try_lock(FolderLock::Kind::exclusive); ++tries) {
    if (tries == 0) say("another carillon train uses this train directory; waiting up to a minute until it exits");
    if (stop_requested()) return false;
    if (tries == most_tries)
      fail(ExitCode::usage, "{}: another carillon train uses it: wait, or name another folder with --train-dir",
           train_dir.string());
    std::this_thread::sleep_for(pause);
  }
  return true;
}

int stopped_early(bool continues = false) {
  say(continues ? "stopped: the same command continues the training"
                : "stopped before the training began: the same command starts again");
  return static_cast<int>(ExitCode::stopped);
}

void print_next_steps(const fs::path& folder, const TrainingRequest& request, const TrainingPlan& plan,
                      const fs::path& train_dir) {
  const std::string run = shell_line({train_dir.string()}), carillon = shell_line({program_as_called("carillon")});
  std::vector<std::string> again{program_as_called("carillon"), "train", folder.string()};
  if (!request.train_dir.empty()) again.insert(again.end(), {"--train-dir", request.train_dir});
  if (!request.data_dir.empty()) again.insert(again.end(), {"--data-dir", request.data_dir});
  if (!request.from.empty()) again.insert(again.end(), {"--from", request.from});
  if (!request.background.empty()) again.insert(again.end(), {"--background", request.background});
  if (request.layout == FolderLayout::classes) again.insert(again.end(), {"--layout", "classes"});
  if (!request.targets.empty()) again.insert(again.end(), {"--targets", request.targets});
  if (request.ranks > 0) again.insert(again.end(), {"--ranks", std::to_string(request.ranks)});
  if (request.validation_share != TrainingRequest{}.validation_share) {
    again.insert(again.end(), {"--validation-share", fmt::format("{}", request.validation_share)});
  }
  again = joined(again, without(request.passed, {"max-steps", "epochs"}));
  const bool has_time = plan.minutes > 0.0;
  const std::pair<std::string, std::string_view> steps[] = {
      {carillon + " predict " + run + " PICTURE_OR_FOLDER...", "predictions for other pictures"},
      {carillon + " report " + run,
       request.targets.empty() ? "accuracy by class, and confused classes" : "results of each class, label or number"},
      {carillon + " export " + run + " --onnx FILE.onnx", "the network for other programs"},
      {"tensorboard --logdir " + run, "curves"},
      {shell_line(again) + (has_time ? " --more N" : " --max-steps N"),
       has_time ? "N more minutes of training" : "a longer training"}};
  std::size_t width = 0;
  for (const auto& [command, purpose] : steps) width = std::max(width, command.size());
  say("done. Next:");
  for (const auto& [command, purpose] : steps) fmt::print("  {:<{}}   {}\n", command, width, purpose);
}

void print_commands(const PictureTraining& training, const TrainingPlan& plan) {
  fmt::print("{}", training.command_lines(plan));
  std::fflush(stdout);
}

/// Runs a command for image_train that launch.command made, and restarts it after a lost rank.
ChildResult train_with_restarts(const Launch& launch, const std::vector<std::string>& command, std::int64_t restarts) {
  const auto program = std::ranges::find(command, program_as_called("image_train"));
  return run_with_restarts({.launcher = {command.begin(), program},
                            .program = {program, command.end()},
                            .restarts = restarts,
                            .run = [&](const auto& words, int /*start*/) { return launch.run(words); },
                            .report = say});
}

int train(const fs::path& folder, const CommandLine& line) {
  const TrainingRequest& request = line.request;
  const auto started = PictureTraining::Clock::now();
  PictureTraining training(folder, request, started);
  const FolderLock lock(training.train_dir());
  if (!lock_train_dir(lock, training.train_dir())) return stopped_early();
  if (line.is_dry && request.fresh && !list_checkpoints(training.train_dir()).empty()) {
    fail(ExitCode::usage, "--dry-run --fresh: {} holds a training; name another folder with --train-dir",
         training.train_dir().string());
  }
  std::optional<TrainingPlan> plan = training.earlier_plan();
  const bool continues = plan.has_value();
  if (continues) {
    if (!training.restore_records(*plan)) return stopped_early(true);
    if (request.more_minutes > 0.0) training.extend(*plan);
    if (line.is_dry) print_commands(training, *plan);
  } else if (request.more_minutes > 0.0) {
    fail(ExitCode::usage, "--more: {} holds no training that carillon train began: omit --more",
         training.train_dir().string());
  } else {
    plan = training.make_plan();
    if (!plan) return stopped_early();
    say(plan->minutes > 0.0
            ? fmt::format("about {}; --minutes N sets another budget. The commands:", minutes_text(plan->minutes))
            : "the commands:");
    print_commands(training, *plan);
  }
  if (line.is_dry) return 0;
  if (stop_requested()) return stopped_early(continues);
  const Launch launch = training.launch(*plan);
  const ChildResult trained = train_with_restarts(launch, training.training_command(*plan), line.restarts);
  constexpr int stopped = static_cast<int>(ExitCode::stopped);
  if (training.keeps_earlier_training()) {
    say(fmt::format("the training did not begin: {} still holds the earlier one", training.train_dir().string()));
    return trained.stopped ? stopped : exit_code_of(trained, "image_train");
  }
  if (trained.exit_code == stopped || (trained.stopped && trained.exit_code == 0)) {
    const std::string_view once = request.fresh                ? " without --fresh"
                                  : request.more_minutes > 0.0 ? " without --more"
                                                               : "";
    say(fmt::format("stopped: the same command{} continues", once));
    return stopped;
  }
  if (trained.exit_code != 0) return exit_code_of(trained, "image_train");
  if (!plan->evaluated.empty()) {
    say(training.plan_evaluation(*plan, continues));
    const ChildResult evaluated = launch.run(training.evaluation_command(*plan, trained_network(training.train_dir())));
    if (evaluated.stopped) say("stopped during the last evaluation: the same command repeats it");
    if (evaluated.exit_code != 0 || evaluated.stopped) {
      return evaluated.stopped ? stopped : exit_code_of(evaluated, "image_eval");
    }
    say(fmt::format("wrote {}, a report for a browser", report_page(training.train_dir()).string()));
  }
  print_next_steps(folder, request, *plan, training.train_dir());
  return 0;
}

/// Checks the options for image_train before the pictures are converted. Errors: usage.
void check_passed(const OptionSet& set, CommandLine& line) {
  constexpr std::pair<const char*, const char*> refused[] = {
      {"data", "carillon train converts the pictures of the folder; with records, use image_train"},
      {"eval-data", "carillon train chooses the evaluation pictures from the folder; with records, use image_train"},
      {"batch-size", "carillon train sets the batch of all ranks: use --global-batch"},
      {"preflight", "use image_train --preflight, or carillon doctor"},
      {"init-from", "use --from"},
      {"init-exclude", "with --from, carillon train excludes the last layer; for other variables, use image_train"}};
  for (const auto& [name, instead] : refused) {
    if (set.is_on_command_line(name)) fail(ExitCode::usage, "--{}: {}", name, instead);
  }
  if (!set.words_given([](const std::string& name) { return name == "config"; }).empty()) {
    fail(ExitCode::usage, "--config: give the options on the command line, or use image_train");
  }
  if (line.request.more_minutes > 0.0) {
    for (const char* const name : {"minutes", "max-steps", "epochs", "time-budget", "resume", "fresh", "dry-run"}) {
      if (set.is_on_command_line(name)) fail(ExitCode::usage, "--more excludes --{}", name);
    }
  }
  if (is_onnx_file(line.training.model.name)) fail(ExitCode::usage, "--model FILE.onnx: use --from FILE.onnx");
  if (line.training.model.name == "help") fail(ExitCode::usage, "--model help: use image_train --model help");
  choose_length(set, line.training.optimizer);
}

/// Returns the options of the training on the command line that influence the plan. Errors: usage.
GivenOptions given_options(const OptionSet& set, const CommandLine& line) {
  const auto given = [&](const char* name, const auto& value) {
    return set.is_on_command_line(name) ? std::optional(value) : std::nullopt;
  };
  const TrainOptions& training = line.training;
  const GivenOptions options{.model = given("model", training.model.name),
                             .image_size = given("image-size", line.pictures.image_size),
                             .eval_image_size = given("eval-image-size", line.pictures.eval_image_size),
                             .global_batch = given("global-batch", training.data.global_batch),
                             .max_steps = given("max-steps", training.optimizer.max_steps),
                             .epochs = given("epochs", training.optimizer.epochs).value_or(0.0),
                             .has_preprocessing = set.is_on_command_line("preprocessing"),
                             .has_fit = set.is_on_command_line("fit"),
                             .keeps_best = given("keep-best", training.checkpoint.keep_best).value_or(true),
                             .wants_cpu = training.device.device == DeviceChoice::cpu};
  for (const auto& [name, value] :
       {std::pair("global-batch", options.global_batch), {"max-steps", options.max_steps}}) {
    if (value == 0) fail(ExitCode::usage, "--{} 0: must be 1 or more", name);
  }
  return options;
}

}  // namespace

ManualGroup train_options() {
  CommandLine line;
  ManualGroup group = option_set(line).manual().groups.front();
  group.heading = "options of carillon train";
  return group;
}

int train_command(const std::vector<std::string>& words) {
  hold_stop_signals();
  CommandLine line;
  OptionSet set = option_set(line);
  std::vector<std::string> folders;
  set.take_rest(folders);
  if (!set.parse(joined({"carillon"}, words))) {
    fmt::print("{}", set.answer());
    return 0;
  }
  for (const std::string& warning : set.misspelt_variables()) print_warning(warning);
  if (folders.empty()) {
    fail(ExitCode::usage, "train: name the folder of pictures first: carillon train FOLDER (see --help)");
  }
  if (folders.size() > 1) {
    fail(ExitCode::usage, "train: '{}' belongs to no option; one folder of pictures can be named", folders[1]);
  }
  check_passed(set, line);
  if (const LaunchedProcesses launched = launched_processes(); launched.count > 1) {
    fail(ExitCode::usage, "train: {} processes were started ({}): start one, which starts its own ranks (--ranks)",
         launched.count, launched.variable);
  }
  leave_launcher();  // the ranks have their own launcher, so this process must not count as a rank
  TrainingRequest& request = line.request;
  request.layout = layout_of(line.layout);
  request.passed = set.words_given([&](const std::string& name) { return set.is_passed_on(name); });
  request.given = given_options(set, line);
  if (set.is_on_command_line("task")) {
    if (request.targets.empty()) fail(ExitCode::usage, "--task requires --targets");
    request.target = target_of_task(line.pictures.task);
  }
  request.convert = [](const std::vector<std::string>& options) { return convert_until(options, stop_requested); };
  return train(folders.front(), line);
}

}  // namespace carillon
