#include "src/cli/launch/picture_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/directory_lock.h"
#include "src/cli/options/option_set.h"
#include "src/cli/options/picture_options.h"
#include "src/core/text.h"
#include "src/device/cuda_backend.h"
#include "src/onnx/onnx.h"
#include "src/report/console.h"
#include "src/report/metrics.h"
#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/checkpointing/torch_weights.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/loop/head_fit.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr double few_epochs = 5.0;  ///< with fewer epochs, a message recommends a longer training

/// Options of image_train and image_eval for devices, ranks and arithmetic.
const std::vector<std::string> device_options{"device", "precision", "convolution", "isa", "threads"};

/// True if the path `inner` equals `outer` or is a path inside `outer`. Both paths are canonical.
bool contains(const fs::path& outer, const fs::path& inner) {
  const fs::path relative = inner.lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

/// Returns the last name in the path `given`, which the user typed; it may be the name of a link. If `given` has no
/// name, for example "/", returns the last name in `path`. `path`: the path of the same folder without links.
fs::path name_of(const fs::path& given, const fs::path& path) {
  fs::path named = fs::absolute(given).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  return named.has_filename() ? named.filename() : path.filename();
}

/// Returns the absolute path. All spellings of a path, such as "data" and "data/", have the same result, even if the
/// folder does not exist. Errors: usage.
fs::path full_path(const fs::path& path) {
  fs::path full = fs::weakly_canonical(fs::absolute(path));
  if (!full.has_filename() && full.has_relative_path()) full = full.parent_path();
  if (!is_line(full.string())) {
    fail(ExitCode::usage, "{}: the path must be UTF-8, without control characters: rename or choose another folder",
         printable(full.string()));
  }
  return full;
}

}  // namespace

PictureTraining::PictureTraining(const fs::path& folder, TrainingRequest request, Clock::time_point started)
    : request_(std::move(request)),
      folder_(folder),
      pictures_(look_through({folder, request_.layout, request_.targets, request_.target})),
      cores_(usable_cores()),
      gpus_(request_.given.wants_cpu ? 0 : static_cast<int>(find_gpus().ordinals.size())),
      started_(started) {
  const fs::path name = name_of(folder, pictures_.path);
  train_dir_ = request_.train_dir.empty() ? fs::path("runs") / name : fs::path(request_.train_dir);
  if (!request_.from.empty()) {
    if (contains(fs::weakly_canonical(fs::absolute(train_dir_)), fs::weakly_canonical(fs::absolute(request_.from)))) {
      fail(ExitCode::usage, "--from {}: is in the train directory of this training: name another one with --train-dir",
           request_.from);
    }
    from_ = full_path(request_.from).string();
  }
  data_dir_ = full_path(request_.data_dir.empty() ? fs::path("data") / name : fs::path(request_.data_dir));
  if (!contains(pictures_.path, data_dir_) && !contains(data_dir_, pictures_.path)) return;
  if (!request_.data_dir.empty()) {
    fail(ExitCode::usage, "--data-dir {}: must not contain, or be in, the folder of pictures", request_.data_dir);
  }
  data_dir_ += "-records";
  if (contains(pictures_.path, data_dir_)) {
    fail(ExitCode::usage, "{}: is in the folder of pictures: name another folder with --data-dir", data_dir_.string());
  }
}

void PictureTraining::check_pictures(TrainingPlan& plan) {
  const PictureIdentity planned{plan.pictures, plan.fingerprint, plan.contents};
  if (!are_unchanged(pictures_, planned)) {
    if (plan.pictures != pictures_.path) {
      fail(ExitCode::usage,
           "{}: holds a training on {}, not on {}: train again with --fresh, or name another folder with --train-dir",
           train_dir_.string(), plan.pictures, pictures_.path);
    }
    const std::string run = train_dir_.string();
    fail(
        ExitCode::usage,
        "{}: the pictures in {} have changed since the training began: --fresh removes this training and trains again; "
        "to keep it, start another one from its weights: {}",
        run, plan.pictures,
        shell_line({program_as_called("carillon"), "train", folder_.string(), "--from", run, "--train-dir", run + "-2",
                    "--data-dir", plan.data + "-2"}));
  }
  if (plan.pictures == pictures_.path && plan.fingerprint == pictures_.fingerprint) return;
  say(fmt::format("the pictures have the same contents as those in {} when the training began", plan.pictures));
  plan.pictures = pictures_.path;
  plan.fingerprint = pictures_.fingerprint;
  update_plan(train_dir_, plan);
}

std::optional<TrainingPlan> PictureTraining::earlier_plan() {
  if (request_.fresh) return std::nullopt;
  const std::string place = train_dir_.string();
  std::optional<TrainingPlan> plan = read_plan(train_dir_);
  // Without checkpoints, there is no training to continue, and a new plan may replace the plan.
  if (!plan || list_checkpoints(train_dir_).empty()) return std::nullopt;
  check_pictures(*plan);
  const std::string shorter = plan->conversion.size() > 1 ? plan->conversion[1] : "";
  if (full_path(plan->data) != data_dir_ || plan->conversion != conversion(shorter).options) {
    fail(ExitCode::usage,
         "{}: the training began with another --data-dir, --validation-share, --background, --layout, --targets or "
         "--task: repeat them, train again with --fresh, or name another folder with --train-dir",
         place);
  }
  const auto refuse_other = [&](std::string_view option, const auto& given, const auto& began) {
    if (!given || *given == began) return;
    fail(ExitCode::usage,
         "{}: this training has --{} {}: omit --{}, train again with --fresh, or name another folder with --train-dir",
         place, option, began, option);
  };
  refuse_other("model", request_.given.model, plan->network);
  refuse_other("image-size", request_.given.image_size, plan->image_size);
  std::optional<std::int64_t> given_size = request_.given.eval_image_size;
  if (given_size == 0) given_size = plan->image_size;
  refuse_other("eval-image-size", given_size, plan->eval_image_size > 0 ? plan->eval_image_size : plan->image_size);
  if (plan->from != from_) {
    fail(ExitCode::usage,
         "{}: the training began {}: repeat the command, train again with --fresh, or name another folder with "
         "--train-dir",
         place, plan->from.empty() ? "without --from" : "with --from " + printable(plan->from));
  }
  if (request_.ranks > 0) plan->ranks = request_.ranks;
  if (request_.more_minutes > 0.0) return plan;
  if (is_finished(*plan)) {
    say(fmt::format("the training in {} is finished; --fresh begins another", place));
  } else if (request_.minutes > 0.0 && request_.minutes != plan->minutes) {
    const std::string length = plan->minutes > 0.0 ? minutes_text(plan->minutes) : count_text(plan->steps, "step");
    say(fmt::format("continues the plan of {} in {}; --fresh makes a new one", length, place));
  } else {
    say(fmt::format("continues the training in {}", place));
  }
  return plan;
}

bool PictureTraining::is_finished(const TrainingPlan& plan) const {
  if (request_.given.epochs > 0.0) return false;  // with --epochs, the training may be longer than in the plan
  const std::int64_t newest = list_checkpoints(train_dir_).front();
  std::optional<PacePoint> pace = plan.minutes > 0.0 ? logged_pace(train_dir_, newest) : std::nullopt;
  // True if the time budget was extended after the point was logged.
  if (pace && pace->time_budget != time_budget_of(train_dir_)) return false;
  return newest >= request_.given.max_steps.value_or(pace ? pace->last_step : plan.steps);
}

void PictureTraining::extend(TrainingPlan& plan) {
  const std::string place = train_dir_.string();
  if (plan.minutes == 0.0) {
    fail(ExitCode::usage, "--more: the training in {} has a number of steps, not a time: use --max-steps or --epochs",
         place);
  }
  check_not_running("--more");
  const bool was_finished = is_finished(plan);
  const double more = 60.0 * request_.more_minutes, budget = time_budget_of(train_dir_);
  std::int64_t step = list_checkpoints(train_dir_).front();
  std::string state = "its newest checkpoint";
  next_plan_options_.emplace();
  const fs::path best_path = best_checkpoint_path(train_dir_);
  std::error_code absent;
  if (was_finished && fs::exists(best_path, absent)) {
    step = read_checkpoint(best_path).global_step;
    state = fmt::format("the best state, step {}", step);
    *next_plan_options_ = {"--resume", "best"};
  }
  // The training continues from this state. The time that the training used after this state does not count.
  const std::optional<PacePoint> pace = logged_pace(train_dir_, step);
  const double used = was_finished && pace ? pace->seconds : budget;
  plan.minutes += request_.more_minutes;
  plan.steps += std::llround(std::ceil(static_cast<double>(plan.steps) * more / budget));
  plan.views = 0;
  write_next_plan(train_dir_, plan, settings_with_length(train_dir_, plan.steps, used + more));
  say(fmt::format("trains {} more in {}, from {}", minutes_text(request_.more_minutes), place, state));
}

std::int64_t PictureTraining::training_pictures() const {
  const double share = pictures_.has_splits ? 0.0 : request_.validation_share;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(pictures_.training) * (1.0 - share)));
}

std::int64_t PictureTraining::batch_size() const {
  return request_.given.global_batch.value_or(batch_for(training_pictures()));
}

TrainingChoice PictureTraining::choose(MachineSpeed& speed) const {
  std::optional<double> seconds;
  if (request_.minutes > 0.0) seconds = 60.0 * request_.minutes;
  if (!seconds && request_.given.has_length()) seconds = shortest_training_seconds;  // the user set the length
  constexpr double measuring_share = 0.1;
  const double measuring = measuring_share * seconds.value_or(shortest_training_seconds);
  return choose_training({.pictures = training_pictures(),
                          .shape = pictures_.shape,
                          .seconds = seconds,
                          .seconds_per_picture = [&](const Candidate& c) { return speed.seconds_per_picture(c); },
                          .may_measure = [&] { return elapsed() < measuring; },
                          .batch_size = batch_size(),
                          .fixed = {.network = weights_ ? weights_->network : request_.given.model,
                                    .image_size = request_.given.image_size},
                          .fine_tunes = weights_.has_value(),
                          .target = pictures_.target,
                          .preprocessing = weights_ ? weights_->preprocessing : ""});
}

std::vector<std::string> PictureTraining::initial_weights(const TrainingPlan& plan) const {
  if (is_onnx_file(plan.network)) return {"--model", plan.network};
  if (!weights_) return {};
  const Network network = network_of({weights_->network, fine_tuning_sizes().front()});
  const Graph graph = build_network(network, {1, Arithmetic::fp32, Purpose::evaluation}).graph;
  return {"--init-from", request_.from, "--init-exclude", last_layer(graph.parameters()) + "/*"};
}

Conversion PictureTraining::conversion(const std::string& shorter) const {
  Conversion conversion{data_dir_, {"--resize-shorter", shorter, "--skip-damaged"}};
  const auto add = [&](const std::string& name, const std::string& value) {
    conversion.options.insert(conversion.options.end(), {name, value});
  };
  if (!pictures_.has_splits) add("--validation-share", fmt::format("{}", request_.validation_share));
  if (!request_.background.empty()) add("--background", request_.background);
  if (request_.layout == FolderLayout::classes) add("--layout", "classes");
  if (!request_.targets.empty()) add("--targets", pictures_.targets.string());
  if (request_.target) add("--task", std::string(task_name(*request_.target)));
  return conversion;
}

PictureTraining::Length PictureTraining::length_of(const TrainingChoice& choice, const CachedRecords& records,
                                                   const TrainingPlan& plan, MachineSpeed& speed) const {
  if (request_.given.max_steps) return {*request_.given.max_steps, *request_.given.max_steps};
  if (request_.given.epochs > 0.0) {
    const double exact =
        request_.given.epochs * static_cast<double>(records.training) / static_cast<double>(choice.batch_size);
    const std::int64_t steps = std::max<std::int64_t>(1, std::llround(std::ceil(exact)));
    return {steps, steps};
  }
  const double measured = speed.seconds_per_picture(choice.candidate);
  const double picture = measured * speed.slowdown();  // elapsed time
  const auto watched = static_cast<double>(records.of(plan.watched)),
             evaluated = static_cast<double>(records.of(plan.evaluated));
  const double passed = elapsed();
  const TimePlan time = divide_time(choice.seconds, passed, forward_share * picture * evaluated);
  if (choice.seconds - passed < time.training) {
    say(fmt::format("the measurement and the conversion took {:.0f} s of {}: the training gets {:.0f} s", passed,
                    minutes_text(choice.seconds / 60.0), time.training));
  }
  const double fit = choice.fine_tunes ? forward_share * picture * static_cast<double>(records.training) : 0.0;
  const double in_steps = seconds_in_steps(time.training, fit, forward_share * picture * watched);
  const std::int64_t most = most_steps(records.training, choice.batch_size);
  const double fitting = in_steps / (picture * static_cast<double>(choice.batch_size));
  return {.steps = most,
          .expected = static_cast<std::int64_t>(std::clamp(fitting, 1.0, static_cast<double>(most))),
          .seconds = time.training,
          .evaluation = time.evaluation};
}

std::int64_t PictureTraining::ranks() const {
  if (request_.ranks > 0) return request_.ranks;
  return find_in_path("mpirun").empty() ? 1 : ranks_for(batch_size(), gpus_ > 0 ? gpus_ : cores_);
}

void PictureTraining::read_weights() {
  if (from_.empty()) return;
  weights_ = network_of_weights(request_.from, request_.given.model);
  if (weights_->preprocessing.empty() && !request_.given.has_preprocessing &&
      expects_inception_pixels({weights_->network, 64})) {
    say("--preprocessing inception, as for most of timm's vision transformers; DeiT's need torchvision");
  }
}

std::optional<TrainingPlan> PictureTraining::make_plan() {
  if (request_.ranks > 1) require_mpirun(request_.ranks);
  const std::optional<std::int64_t>& given_size = request_.given.eval_image_size;
  if (given_size) check_evaluation_size(*given_size);
  read_weights();
  const std::string processors = gpus_ > 0 ? count_text(gpus_, "GPU") : count_text(cores_, "core");
  say(fmt::format("{} pictures in {}: {}", pictures_.count, printable(pictures_.path), pictures_.text));
  say(fmt::format("measuring the speed of this machine ({})", processors));
  MachineSpeed speed({.launch = {static_cast<int>(ranks()), cores_},
                      .gpus = gpus_,
                      .batch_size = batch_size(),
                      .device_options = only(request_.passed, device_options),
                      .directory = train_dir_ / ".trial"});
  TrainingChoice choice = choose(speed);
  if (speed.is_stopped()) return std::nullopt;
  if (choice.fit == Fit::squash && !request_.given.has_fit) {
    say(fmt::format(
        "the longer side of most pictures is more than {:.1f} times the shorter: --fit squash shows them whole",
        longest_cropped));
  }
  network_of(choice.candidate);  // checks the size
  if (given_size) check_evaluates(choice.candidate, *given_size);
  choice.eval_image_size = given_size ? *given_size : evaluation_size_for(choice.candidate);
  // A training image is a random part of a picture. At twice the image size, even small parts keep their detail.
  const Conversion wanted = conversion(std::to_string(2 * choice.candidate.image_size));
  if (stop_requested() || !convert_if_changed(pictures_, wanted, lock_data(), request_.convert)) return std::nullopt;
  const CachedRecords records = count_records(data_dir_);
  const std::string held_out = records.validation > 0 ? "validation" : "", test = records.test > 0 ? "test" : "";
  TrainingPlan plan{.pictures = pictures_.path,
                    .fingerprint = pictures_.fingerprint,
                    .contents = pictures_.contents,
                    .data = data_dir_.string(),
                    .conversion = wanted.options,
                    .from = from_,
                    .network = choice.candidate.network,
                    .image_size = choice.candidate.image_size,
                    .eval_image_size = choice.eval_image_size,
                    .watched = held_out.empty() ? test : held_out,
                    .evaluated = test.empty() ? held_out : test,
                    .ranks = ranks(),
                    .minutes = request_.given.has_length() ? 0.0
                               : request_.minutes > 0.0    ? request_.minutes
                                                           : choice.seconds / 60.0};
  const Length length = length_of(choice, records, plan, speed);
  if (speed.is_stopped()) return std::nullopt;
  plan.steps = length.steps;
  plan.evaluation_seconds = length.evaluation;
  const double epochs =
      static_cast<double>(length.expected * choice.batch_size) / static_cast<double>(records.training);
  if (length.seconds == 0.0) {
    choice.passes = fine_tuning_passes(static_cast<double>(length.expected * choice.batch_size), records.training);
  }
  std::string settings = training_settings(choice, length.steps);
  if (length.seconds > 0.0) settings += fmt::format("time-budget = {:.1f}\n", length.seconds);
  const std::int64_t eval_every = evaluation_interval(length.expected, records.of(plan.watched), choice.batch_size);
  if (!plan.watched.empty()) settings += fmt::format("eval-every = {}\n", eval_every);
  // Disables the best checkpoint: the test pictures must not influence which checkpoint is used.
  if (plan.watched == "test") settings += "keep-best = false\n";
  if (request_.fresh) check_not_running("--fresh");
  if (request_.fresh && holds_training()) {
    next_plan_options_ = {"--fresh"};
    write_next_plan(train_dir_, plan, settings);
  } else {
    if (request_.fresh) remove_run_files(train_dir_);  // the directory then contains only logs
    write_plan(train_dir_, plan, settings);
  }
  const Candidate& candidate = choice.candidate;
  const bool is_counted = length.seconds == 0.0 || length.expected == length.steps;
  say(fmt::format("{} at {}x{} pixels, {}{} steps of {} pictures: each picture {:.3g} times",
                  is_onnx_file(candidate.network) ? fs::path(candidate.network).stem().string() : candidate.network,
                  candidate.image_size, candidate.image_size, is_counted ? "" : "about ", length.expected,
                  choice.batch_size, epochs));
  if (epochs < few_epochs && !choice.fine_tunes && !request_.given.has_length()) {
    say("few passes over the pictures: a longer training (--minutes) is usually better");
  }
  return plan;
}

bool PictureTraining::holds_training() const {
  std::error_code absent;
  return !list_checkpoints(train_dir_).empty() || fs::exists(best_checkpoint_path(train_dir_), absent);
}

bool PictureTraining::keeps_earlier_training() const { return next_plan_options_ && remove_next_plan(train_dir_); }

bool PictureTraining::restore_records(const TrainingPlan& plan) {
  return convert_if_changed(pictures_, {plan.data, plan.conversion}, lock_data(), request_.convert);
}

const FolderLock& PictureTraining::lock_data() {
  if (!data_lock_) data_lock_.emplace(data_dir_);
  return *data_lock_;
}

void PictureTraining::check_not_running(const char* option) const {
  if (look_at_lock(train_dir_) != LockState::held) return;
  fail(ExitCode::usage, "{}: {} is in use by another training", option, train_dir_.string());
}

std::vector<std::string> PictureTraining::training_command(const TrainingPlan& plan) const {
  const fs::path settings = next_plan_options_ ? train_dir_ / next_plan_settings_name : settings_path(train_dir_);
  std::vector<std::string> words{"--config",    settings.string(),  "--data", records_pattern(plan.data, "train"),
                                 "--train-dir", train_dir_.string()};
  if (next_plan_options_) words = joined(words, *next_plan_options_);
  if (!plan.watched.empty()) words = joined(words, {"--eval-data", records_pattern(plan.data, plan.watched)});
  words = joined(words, initial_weights(plan));
  return launch(plan).command("image_train", joined(words, request_.passed));
}

double PictureTraining::elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

std::string PictureTraining::plan_evaluation(TrainingPlan& plan, bool continued) const {
  const std::optional<double> watched_seconds = logged_evaluation_seconds(train_dir_);
  const CachedRecords records = count_records(plan.data);
  std::string why;
  if (plan.views == 0 && (plan.minutes == 0.0 || !watched_seconds || records.of(plan.watched) == 0)) {
    plan.views = most_views;
    update_plan(train_dir_, plan);
  } else if (plan.views == 0) {
    const double one_view = *watched_seconds * static_cast<double>(records.of(plan.evaluated)) /
                            static_cast<double>(records.of(plan.watched));
    const double total = 60.0 * plan.minutes, left = continued ? plan.evaluation_seconds : total - elapsed();
    plan.views = views_within(one_view, left, total);
    if (plan.views == 1) {
      why = fmt::format(", because {} would take about {:.0f} s, and {:.0f} s are left; carillon evaluate averages {}",
                        count_text(most_views, "view"), static_cast<double>(most_views) * one_view, std::max(0.0, left),
                        most_views);
    }
    update_plan(train_dir_, plan);
  }
  return plan.views == 1 ? "evaluates the network with one view of each picture" + why
                         : "evaluates the network: the mean over six views of each picture";
}

std::vector<std::string> PictureTraining::evaluation_command(const TrainingPlan& plan, const fs::path& network) const {
  std::vector<std::string> words{"--data",       records_pattern(plan.data, plan.evaluated),
                                 "--checkpoint", network.string(),
                                 "--report",     report_page(train_dir_).string()};
  if (plan.views != 1) words.emplace_back("--test-time-augmentation");
  // The evaluation runs on the devices of the training.
  return launch(plan).command("image_eval", joined(words, only(request_.passed, device_options)));
}

std::string PictureTraining::command_lines(const TrainingPlan& plan) const {
  std::string lines = fmt::format("  {}\n  {}\n",
                                  shell_line(joined({program_as_called("tfrecord_convert")},
                                                    conversion_words(pictures_, {plan.data, plan.conversion}))),
                                  shell_line(training_command(plan)));
  if (plan.evaluated.empty()) return lines;
  // If a training evaluates on validation pictures, it keeps the best checkpoint.
  const bool keeps_best = plan.watched == "validation" && request_.given.keeps_best;
  const fs::path network = keeps_best ? best_checkpoint_path(train_dir_) : trained_network(train_dir_);
  return lines + fmt::format("  {}\n", shell_line(evaluation_command(plan, network)));
}

}  // namespace carillon
