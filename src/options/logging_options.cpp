#include "carillon/options/logging_options.h"

#include "src/options/option_groups.h"
#include "src/options/option_values.h"

namespace carillon {

void declare(OptionSet& set, LoggingOptions& o) {
  set.begin_group("Logs");
  set.add("log-every", o.log_every, 0, max_option_steps,
          "steps between lines on the console and in metrics.jsonl; 0: none");
  set.add(
      "summary-every", o.summary_every, 0, max_option_steps,
      "steps between TensorBoard summaries, in addition to the last step's; 0: none. Default on GPUs: at least 100");
}

}  // namespace carillon
