// Options of the model and the task, and functions for all groups together.
#include "carillon/cli/options/train_options.h"

#include <utility>

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

void declare(OptionSet& set, ModelOptions& o) {
  set.begin_group("Training", Scope::result);
  set.add("sync-batch-norm", o.sync_batch_norm, "batch statistics over the samples of all ranks in batch norms");
  set.add("drop-path", o.drop_path, NumberRange::below_one,
          "stochastic depth: probability that a sample skips the last residual block; grows from 0 in the first block; "
          "0: disabled");
  set.add("freeze-batch-norm", o.freeze_batch_norm,
          "use the running statistics in all batch norms, and keep them; scales and shifts are still trained");
  set.add("seed", o.seed, "seed of initial variables, sample order and augmentation");
}

void declare_network(OptionSet& set, ModelOptions& o, const std::vector<std::string>& names) {
  set.begin_group("Training");
  std::vector<std::string> values = names;
  values.emplace_back("FILE.onnx");
  const auto set_model = [&o, values](const std::vector<std::string>& texts) {
    const std::string& text = texts.front();
    o.name = text.ends_with(".onnx") ? text : values[parse_choice(text, values)];
  };
  set.add(
      {.name = "model",
       .help =
           "network to train: a name, or a file with any network and its weights; help: list the networks with their "
           "sizes and speeds on this machine",
       .set = set_model,
       .get = [&o] { return o.name; },
       .choices = values});
  set.add("head", o.head,
          "layer of the ONNX file of --model that gets new values if the task has another number of outputs; default: "
          "the last one");
  set.add("fresh-weights", o.fresh_weights,
          "draw the initial values instead of reading them from the ONNX file of --model");
}

namespace {

constexpr std::array regression_losses{Choice{RegressionLoss::squared, "squared"},
                                       Choice{RegressionLoss::absolute, "absolute"},
                                       Choice{RegressionLoss::huber, "huber"}};

}  // namespace

void declare(OptionSet& set, TaskOptions& o) {
  set.begin_group("Data");
  set.add("stop-at-accuracy", o.stop_at_accuracy, NumberRange::unit,
          "score of an evaluation at which the run ends: accuracy, mean average precision or R2; requires --eval-data; "
          "0: "
          "disabled")
      .alias = "stop-at-precision";
  set.add(
      "patience", o.patience, 0, max_option_steps,
      "number of consecutive evaluations without a better score after which the run ends; requires --eval-every; 0: "
      "disabled");
  set.begin_group("Training", Scope::result);
  set.add("label-smoothing", o.label_smoothing, NumberRange::unit,
          "part of each label, 0 to 1, that is spread evenly over all classes");
  set.add(
      "class-weights", o.class_weights,
      "weights of the classes in the loss: none, balanced (inverse to the number of training records of a class), or "
      "a CSV file with the header class,weight");
  set.add("focal-gamma", o.focal_gamma, NumberRange::not_negative,
          "exponent of focal loss, which gives samples with a high probability of their class less weight, e.g. 2; 0: "
          "disabled");
}

void check(const TaskOptions& o, const DataOptions& data) {
  for (const auto& [is_given, name] :
       {std::pair(o.stop_at_accuracy > 0.0, "stop-at-accuracy"), {o.patience > 0, "patience"}}) {
    if (is_given && data.eval_files.empty()) fail(ExitCode::usage, "--{} requires --eval-data", name);
  }
  if (o.patience > 0 && data.eval_every == 0) fail(ExitCode::usage, "--patience requires --eval-every");
}

void declare_regression(OptionSet& set, TaskOptions& o) {
  set.begin_group("Training", Scope::result);
  set.add("regression-loss", o.regression_loss, regression_losses,
          "loss of a regression; huber: squared below --huber-delta, linear above");
  set.add("huber-delta", o.huber_delta, NumberRange::positive,
          "error from which the loss is linear, in standard deviations of the target (huber)");
}

void check_for_target(const OptionSet& set, const TaskOptions& o, TargetKind target) {
  for (const auto& [is_given, name] : {std::pair(o.label_smoothing > 0.0, "label-smoothing"),
                                       {o.focal_gamma > 0.0, "focal-gamma"},
                                       {o.weighs_classes(), "class-weights"}}) {
    if (is_given && target != TargetKind::class_index) {
      fail(ExitCode::usage, "--{} requires a classification, but the task of the records is {}", name,
           task_name(target));
    }
  }
  for (const char* const name : {"regression-loss", "huber-delta"}) {
    if (target != TargetKind::numbers && set.is_on_command_line(name)) {
      fail(ExitCode::usage, "--{} requires a regression, but the task of the records is {}", name, task_name(target));
    }
  }
  if (set.is_on_command_line("huber-delta") && o.regression_loss != RegressionLoss::huber) {
    fail(ExitCode::usage, "--huber-delta requires --regression-loss huber");
  }
}

namespace {

void check_micro_batches(const TrainOptions& o) {
  if (o.data.micro_batch == 0) return;
  if (o.device.wire != Wire::fp32) {
    fail(
        ExitCode::usage,
        "--wire bf16 rounds sums between ranks, and --micro-batch promises equal bits at any number of ranks: give one "
        "of them");
  }
  if (o.model.sync_batch_norm) {
    fail(ExitCode::usage, "--sync-batch-norm requires whole batches, and --micro-batch divides them: give one of them");
  }
}

}  // namespace

void declare(OptionSet& set, TrainOptions& o) {
  for (const char* const heading : {"Data", "Training", "Optimiser", "Lookahead", "Schedule", "Devices", "Logs"}) {
    set.begin_group(heading);
  }
  declare(set, o.data);
  declare(set, o.model);
  declare(set, o.task);
  declare(set, o.optimizer);
  declare(set, o.device);
  declare(set, o.checkpoint);
  declare(set, o.logging);
  declare(set, o.faults);
  // Sets the order of --help: several groups declare options under the same heading.
  set.arrange(parts_of(
      "data, eval-data, eval-every, stop-at-accuracy, patience, "
      "train-dir, max-steps, epochs, batch-size, global-batch, micro-batch, sync-batch-norm, freeze-batch-norm, "
      "label-smoothing, class-weights, focal-gamma, rotate, zoom, shift, mixup, cutmix, drop-path, seed, init-from, "
      "init-exclude, freeze, time-limit, time-margin",
      ','));
}

void check_combinations(const OptionSet& set, const TrainOptions& o) {
  check(o.checkpoint);
  check(set, o.data);
  check(o.task, o.data);
  if (o.model.sync_batch_norm && o.model.freeze_batch_norm) {
    fail(ExitCode::usage,
         "--sync-batch-norm computes statistics of the batch, and --freeze-batch-norm uses stored ones: give one of "
         "them");
  }
  check_micro_batches(o);
  check(set, o.optimizer);
  check(o.device);
}

std::vector<std::string_view> options_without_effect(const TrainOptions& o) {
  std::vector<std::string_view> names = options_without_effect(o.data);
  for (const std::string_view name : options_without_effect(o.optimizer)) names.push_back(name);
  if (o.data.record_form.schema.target != TargetKind::numbers) names.emplace_back("regression-loss");
  if (o.data.record_form.schema.target != TargetKind::numbers || o.task.regression_loss != RegressionLoss::huber) {
    names.emplace_back("huber-delta");
  }
  return names;
}

}  // namespace carillon
