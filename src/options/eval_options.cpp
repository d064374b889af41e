#include "src/options/eval_options.h"

#include "src/options/option_groups.h"

namespace carillon {

void declare(OptionSet& set, EvalOptions& o) {
  declare_for_evaluation(set, o.data);
  set.add("checkpoint", o.checkpoint, "checkpoint, or train directory: its newest good checkpoint");
  set.add("raw-weights", o.raw_weights,
          "evaluate the variables in place of their moving averages (if --moving-average-decay was above 0)");
  set.add(
      "report", o.report,
      "files for the results of each class, label or number: NAME.html (a page for a browser), NAME.json, NAME.csv");
  set.add("predictions", o.predictions, "file for the target and the prediction of each record: NAME.csv");
  set.add("mistakes", o.mistakes,
          "file for a sheet of the pictures whose predictions are furthest from their targets: NAME.png");
  set.arrange({"data", "image-key", "label-key", "checkpoint", "raw-weights", "report", "predictions", "mistakes"});
  declare_for_evaluation(set, o.device);
  declare_for_evaluation(set, o.faults);
}

void declare_first_label(OptionSet& set, EvalOptions& o) {
  set.begin_group("Data");
  set.add("first-label", o.first_label, -1, 1,
          "label of the first class; -1: that of records.json, else that of the training");
}

}  // namespace carillon
