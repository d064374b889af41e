#include "src/options/eval_options.h"

#include "src/options/option_groups.h"

namespace carillon {

void declare(OptionSet& set, EvalOptions& o) {
  declare_for_evaluation(set, o.data);
  set.add("checkpoint", o.checkpoint, "checkpoint, or train directory: its newest good checkpoint");
  set.add("raw-weights", o.raw_weights,
          "evaluate the variables in place of their moving averages (if --moving-average-decay was above 0)");
  set.add("report", o.report,
          "file for the confusion matrix and the precision and recall of each class: NAME.json or NAME.csv");
  set.arrange({"data", "image-key", "label-key", "checkpoint", "raw-weights", "report"});
  declare_for_evaluation(set, o.device);
  declare_for_evaluation(set, o.faults);
}

void declare_first_label(OptionSet& set, EvalOptions& o) {
  set.begin_group("Data");
  set.add("first-label", o.first_label, -1, 1,
          "label of the first class; -1: that of records.json, else 1, as in ImageNet's records");
}

}  // namespace carillon
