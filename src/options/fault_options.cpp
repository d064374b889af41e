#include "carillon/options/fault_options.h"

#include "src/options/option_groups.h"
#include "src/options/option_values.h"

namespace carillon {
namespace {

constexpr std::array on_nan_choices{Choice{OnNan::stop, "stop"}, Choice{OnNan::report, "report"}};

}  // namespace

void declare(OptionSet& set, FaultOptions& o) {
  set.begin_group("Faults");
  set.add("on-nan", o.on_nan, on_nan_choices,
          "reaction to a non-finite loss: stop the run, or first report the op and the records that caused it; with "
          "report, GPUs wait after each step, which is slower");
  set.add("check-replicas", o.check_replicas, 0, max_option_steps,
          "steps between comparisons of the ranks' variables, which also precede each checkpoint; GPUs copy the "
          "variables to the host; 0: disabled");
  set.add(
      "audit", o.audit, 0, max_option_steps,
      "steps between audits; an audit computes each rank's gradients a second time, on another rank if possible, and "
      "compares checksums (CPUs); 0: disabled");
  declare_for_evaluation(set, o);
}

void declare_for_evaluation(OptionSet& set, FaultOptions& o) {
  set.begin_group("Faults");
  set.add("stall-timeout", o.stall_timeout, OptionSet::Interval::not_negative,
          "seconds without progress of a rank after which the run ends; 0: unlimited");
}

}  // namespace carillon
