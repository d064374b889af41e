// Tower: one rank's replica of the model, and the synchronous training step.
//
// step: forward, backward with the averaging of gradients beside it, update. Every tower starts from rank 0's variables
// and applies the same averaged gradients, so the replicas stay equal bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "carillon/comm/communicator.h"
#include "carillon/comm/reducer.h"
#include "carillon/graph/executable.h"
#include "carillon/io/checkpoint.h"
#include "carillon/models/model.h"
#include "carillon/optim/optimizer.h"

namespace carillon {

/// Averaged over the towers, equal on all of them.
struct StepResult {
  double cross_entropy = 0.0;   ///< of the global batch, without L2
  bool stop_requested = false;  ///< some rank asked to stop
  double reduce_seconds = 0.0;  ///< this rank spent in averaging after its own backward was done
};

class Tower {
 public:
  struct Settings {
    ModelSettings model = {};
    std::int64_t batch_size = 1;
    std::size_t bucket_bytes = std::size_t{4} << 20;
  };

  /// `device` and `communicator` outlive the tower. Collective.
  Tower(const Model& model, const Settings& settings, Device& device, Communicator& communicator);

  /// Variables drawn from `seed`, moving averages equal to them.
  void initialize(std::uint64_t seed);
  /// Variables (and moving averages, unless `variables_only`, when they start equal to the variables) of a checkpoint.
  /// Errors: data (another model's: names the file and the variable that is missing, unknown or of another shape).
  void load(const LoadedCheckpoint& checkpoint, bool variables_only);
  /// Rank 0's variables and averages to every tower. Collective.
  void broadcast_from_first();

  /// One training step on `batch`, which stays alive until it returns. A loss that is not finite is returned and
  /// nothing is updated. `before_update`, if any, runs when gradients are averaged and variables still old. Collective.
  StepResult step(const Batch& batch, const UpdateStep& update, bool request_stop,
                  const std::function<void()>& before_update = {});

  /// L2 part of the loss for the present variables.
  double l2_loss() { return optimizer_->l2_loss(device_.stream()); }
  /// Adds variables and moving averages to `state`. Waits for the stream.
  void save(CheckpointState& state) const;

  const Graph& graph() const { return graph_; }
  const ParameterStore& parameters() const { return parameters_; }
  std::size_t activation_bytes() const { return executable_.memory_bytes(); }

 private:
  struct Network {
    Graph graph;
    Value loss;
  };
  static Network build(const Model& model, const Settings& settings);
  Tower(Network network, const Settings& settings, Device& device, Communicator& communicator);

  Device& device_;
  Communicator& communicator_;
  Graph graph_;
  Value loss_;
  ParameterStore parameters_;
  Executable executable_;
  Reducer reducer_;
  std::unique_ptr<Optimizer> optimizer_;
};

enum class StoreArray { values, averages };
/// Copies `arrays`, of the checkpoint `path`, into the parameters of the same names. Errors: data, as Tower::load.
void load_arrays(const std::vector<NamedArray>& arrays, ParameterStore& store, StoreArray target,
                 const std::filesystem::path& path);

}  // namespace carillon
