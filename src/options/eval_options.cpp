#include "src/options/eval_options.h"

#include "src/options/option_groups.h"

namespace carillon {

void declare(OptionSet& set, EvalOptions& o) {
  declare_for_evaluation(set, o.data);
  set.add("checkpoint", o.checkpoint, "checkpoint, or train directory: its newest good checkpoint");
  set.add("raw-weights", o.raw_weights,
          "evaluate the variables in place of their moving averages (if --moving-average-decay was above 0)");
  set.add("report", o.report,
          "files for the results of each class and the confusion matrix: NAME.html (a page), NAME.json, NAME.csv");
  set.add("predictions", o.predictions, "file for the five most probable classes of each record: NAME.csv");
  set.add("mistakes", o.mistakes, "file for a sheet of the pictures that are most certainly mistaken: NAME.png");
  set.arrange({"data", "image-key", "label-key", "checkpoint", "raw-weights", "report", "predictions", "mistakes"});
  declare_for_evaluation(set, o.device);
  declare_for_evaluation(set, o.faults);
}

void declare_first_label(OptionSet& set, EvalOptions& o) {
  set.begin_group("Data");
  set.add("first-label", o.first_label, -1, 1,
          "label of the first class; -1: that of records.json, else 1, as in ImageNet's records");
}

}  // namespace carillon
