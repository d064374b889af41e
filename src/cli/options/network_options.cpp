#include <algorithm>
#include <utility>

#include "carillon/cli/options/train_options.h"
#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"
#include "src/cli/options/option_values.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

void declare(OptionSet& set, ModelOptions& o) {
  set.begin_group("Training");
  set.add("sync-batch-norm", o.sync_batch_norm, "batch statistics over the samples of all ranks in batch norms",
          Scope::result);
  set.add("drop-path", o.drop_path, OptionSet::Interval::below_one,
          "stochastic depth: probability that a sample skips the last residual block; grows from 0 in the first block; "
          "0: disabled",
          Scope::result);
  set.add("freeze-batch-norm", o.freeze_batch_norm,
          "use the running statistics in all batch norms, and keep them; scales and shifts are still trained",
          Scope::result);
  set.add("seed", o.seed, "seed of initial variables, sample order and augmentation", Scope::result);
}

void declare_network(OptionSet& set, ModelOptions& o, const std::vector<std::string>& names) {
  set.begin_group("Training");
  std::vector<std::string> values = names;
  values.emplace_back("FILE.onnx");
  const auto set_model = [&o, values](const std::vector<std::string>& texts) {
    const std::string& text = texts.front();
    o.name = text.ends_with(".onnx") ? text : values[parse_choice(text, values)];
  };
  set.add("model", OptionSet::Form{.set = set_model, .get = [&o] { return o.name; }, .choices = values},
          "network to train: a name, or a file with any network and its weights; help: list the networks with their "
          "sizes and speeds on this machine");
  set.add("head", o.head,
          "layer of the ONNX file of --model that gets new values if the task has another number of outputs; default: "
          "the last one");
  set.add("fresh-weights", o.fresh_weights, "draw the initial values, in place of those of the ONNX file of --model");
}

namespace {

constexpr std::array regression_losses{Choice{RegressionLoss::squared, "squared"},
                                       Choice{RegressionLoss::absolute, "absolute"},
                                       Choice{RegressionLoss::huber, "huber"}};

}  // namespace

void declare(OptionSet& set, TaskOptions& o) {
  set.begin_group("Data");
  set.add(
      "stop-at-accuracy", o.stop_at_accuracy, OptionSet::Interval::unit,
      "score of an evaluation at which the run ends: accuracy, mean average precision or R2; requires --eval-data; 0: "
      "disabled");
  set.add_alias("stop-at-accuracy", "stop-at-precision");
  set.add(
      "patience", o.patience, 0, max_option_steps,
      "number of consecutive evaluations without a better score after which the run ends; requires --eval-every; 0: "
      "disabled");
  set.begin_group("Training");
  set.add("label-smoothing", o.label_smoothing, OptionSet::Interval::unit,
          "part of each label, 0 to 1, that is spread evenly over all classes", Scope::result);
  set.add(
      "class-weights", o.class_weights,
      "weights of the classes in the loss: none, balanced (inverse to the number of training records of a class), or "
      "a CSV file with the header class,weight",
      Scope::result);
  set.add("focal-gamma", o.focal_gamma, OptionSet::Interval::not_negative,
          "exponent of focal loss, which gives samples with a high probability of their class less weight, e.g. 2; 0: "
          "disabled",
          Scope::result);
}

void check(const TaskOptions& o, const DataOptions& data) {
  for (const auto& [is_given, name] :
       {std::pair(o.stop_at_accuracy > 0.0, "stop-at-accuracy"), {o.patience > 0, "patience"}}) {
    if (is_given && data.eval_files.empty()) fail(ExitCode::usage, "--{} requires --eval-data", name);
  }
  if (o.patience > 0 && data.eval_every == 0) fail(ExitCode::usage, "--patience requires --eval-every");
}

void declare_regression(OptionSet& set, TaskOptions& o) {
  set.begin_group("Training");
  set.add("regression-loss", o.regression_loss, regression_losses,
          "loss of a regression; huber: squared below --huber-delta, linear above", Scope::result);
  set.add("huber-delta", o.huber_delta, OptionSet::Interval::positive,
          "error from which the loss is linear, in standard deviations of the target (huber)", Scope::result);
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
    if (target != TargetKind::numbers && set.has(name) && set.given_by(name) == OptionSet::GivenBy::command_line) {
      fail(ExitCode::usage, "--{} requires a regression, but the task of the records is {}", name, task_name(target));
    }
  }
  const bool gives_delta = set.has("huber-delta") && set.given_by("huber-delta") == OptionSet::GivenBy::command_line;
  if (gives_delta && o.regression_loss != RegressionLoss::huber) {
    fail(ExitCode::usage, "--huber-delta requires --regression-loss huber");
  }
}

std::vector<std::string_view> options_without_effect(const TaskOptions& o, TargetKind target) {
  if (target != TargetKind::numbers) return {"regression-loss", "huber-delta"};
  if (o.regression_loss != RegressionLoss::huber) return {"huber-delta"};
  return {};
}

}  // namespace carillon
