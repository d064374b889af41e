#include "carillon/options/task_options.h"

#include "carillon/core/error.h"
#include "src/options/option_groups.h"

namespace carillon {
namespace {

constexpr std::array regression_losses{Choice{RegressionLoss::squared, "squared"},
                                       Choice{RegressionLoss::absolute, "absolute"},
                                       Choice{RegressionLoss::huber, "huber"}};

}  // namespace

void declare(OptionSet& set, TaskOptions& o) {
  set.begin_group("Data");
  set.add("stop-at-accuracy", o.stop_at_accuracy, OptionSet::Interval::unit,
          "accuracy, e.g. 0.94, at which an evaluation ends the run as --max-steps does (--eval-data); 0: disabled");
  set.add_former_name("stop-at-accuracy", "stop-at-precision");
  set.begin_group("Training");
  set.add("label-smoothing", o.label_smoothing, OptionSet::Interval::unit,
          "part of each label, 0 to 1, that is spread evenly over all classes", Scope::result);
}

void declare_regression(OptionSet& set, TaskOptions& o) {
  set.begin_group("Training");
  set.add("regression-loss", o.regression_loss, regression_losses,
          "loss of a regression: squared error, absolute error, or squared for small and absolute for large errors",
          Scope::result);
  set.add("huber-delta", o.huber_delta, OptionSet::Interval::positive,
          "error from which the loss is linear, in standard deviations of the target (huber)", Scope::result);
}

void check_for_target(const OptionSet& set, const TaskOptions& o, TargetKind target) {
  if (target != TargetKind::class_index && o.label_smoothing > 0.0) {
    fail(ExitCode::usage, "--label-smoothing requires a classification, and the records are of another task");
  }
  for (const char* const name : {"regression-loss", "huber-delta"}) {
    if (target != TargetKind::numbers && set.has(name) && set.given_by(name) == OptionSet::GivenBy::command_line) {
      fail(ExitCode::usage, "--{} requires a regression, and the records are of another task", name);
    }
  }
}

std::vector<std::string_view> options_without_effect(const TaskOptions& o, TargetKind target) {
  if (target != TargetKind::numbers) return {"regression-loss", "huber-delta"};
  if (o.regression_loss != RegressionLoss::huber) return {"huber-delta"};
  return {};
}

}  // namespace carillon
