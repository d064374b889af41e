#include "carillon/options/model_options.h"

#include "src/options/option_groups.h"

namespace carillon {

void declare(OptionSet& set, ModelOptions& o) {
  set.begin_group("Training");
  set.add("sync-batch-norm", o.sync_batch_norm, "batch statistics over the samples of all ranks in batch norms (CPUs)",
          Scope::result);
  set.add("seed", o.seed, "seed of initial variables, sample order and augmentation", Scope::result);
}

void declare_network(OptionSet& set, ModelOptions& o, const std::vector<std::string>& names) {
  set.begin_group("Training");
  set.add("model", o.name, names,
          "network to train; help: list the networks with their sizes and speeds on this machine");
}

}  // namespace carillon
