#include "carillon/options/model_options.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/options/option_groups.h"

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

void check(const ModelOptions& o, const Graph& graph) {
  const auto drops = [](const Graph::Node& node) { return node.definition->type() == "drop_path"; };
  if (o.drop_path == 0.0 || std::ranges::any_of(graph.nodes(), drops)) return;
  fail(ExitCode::usage, "--drop-path requires a network with residual blocks (resnet9, resnet18, resnet50), not {}",
       o.name);
}

void declare_network(OptionSet& set, ModelOptions& o, const std::vector<std::string>& names) {
  set.begin_group("Training");
  set.add("model", o.name, names,
          "network to train; help: list the networks with their sizes and speeds on this machine");
}

}  // namespace carillon
