#include "carillon/cli/options/train_options.h"

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"

namespace carillon {
namespace {

/// Options that --help lists first under their headings. Several groups declare them.
const std::vector<std::string> help_order{"data",
                                          "eval-data",
                                          "eval-every",
                                          "stop-at-accuracy",
                                          "patience",  // Data
                                          "train-dir",
                                          "max-steps",
                                          "epochs",
                                          "batch-size",
                                          "global-batch",
                                          "micro-batch",
                                          "sync-batch-norm",
                                          "freeze-batch-norm",  // Training
                                          "label-smoothing",
                                          "class-weights",
                                          "focal-gamma",
                                          "rotate",
                                          "zoom",
                                          "shift",
                                          "mixup",
                                          "cutmix",
                                          "drop-path",
                                          "seed",
                                          "init-from",
                                          "init-exclude",
                                          "freeze",
                                          "time-limit",
                                          "time-margin"};

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
  set.arrange(help_order);
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
  return names;
}

}  // namespace carillon
