#include "carillon/options/task_options.h"

#include "src/options/option_groups.h"

namespace carillon {

void declare(OptionSet& set, TaskOptions& o) {
  set.begin_group("Data");
  set.add("stop-at-accuracy", o.stop_at_accuracy, OptionSet::Interval::unit,
          "accuracy, e.g. 0.94, at which an evaluation ends the run as --max-steps does (--eval-data); 0: disabled");
  set.add_former_name("stop-at-accuracy", "stop-at-precision");
  set.begin_group("Training");
  set.add("label-smoothing", o.label_smoothing, OptionSet::Interval::unit,
          "part of each label, 0 to 1, that is spread evenly over all classes", Scope::result);
}

}  // namespace carillon
