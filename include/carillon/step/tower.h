// Tower: one rank's replica of the model, and the synchronous training step.
//
// step: forward, backward with the averaging of gradients beside it, update. Every tower starts from rank 0's variables
// and applies the same averaged gradients, so the replicas stay equal bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "carillon/checkpoint/checkpoint.h"
#include "carillon/comm/communicator.h"
#include "carillon/graph/executable.h"
#include "carillon/models/model.h"
#include "carillon/optim/optimizer.h"
#include "carillon/step/driver.h"
#include "carillon/step/reducer.h"

namespace carillon {

class Tower {
 public:
  struct Settings {
    ModelSettings model = {};
    std::int64_t batch_size = 1;
    std::size_t bucket_bytes = std::size_t{4} << 20;
    const Dataset* dataset = nullptr;  ///< whose records the steps take, if it is known; outlives the tower
    bool capture = true;               ///< replay captured steps where the device can
  };

  /// `device` and `communicator` outlive the tower. Collective.
  Tower(const Model& model, const Settings& settings, Device& device, Communicator& communicator);
  /// The driver goes first: the steps that it has under way work on the other members' memory.
  ~Tower() { driver_.reset(); }
  Tower(const Tower&) = delete;
  Tower& operator=(const Tower&) = delete;

  /// Variables drawn from `seed`, moving averages equal to them.
  void initialize(std::uint64_t seed);
  /// Variables (and moving averages, unless `variables_only`, when they start equal to the variables) of a checkpoint.
  /// Errors: data (another model's: names the file and the variable that is missing, unknown or of another shape).
  void load(const LoadedCheckpoint& checkpoint, bool variables_only);
  /// Rank 0's variables and averages to every tower. Collective.
  void broadcast_from_first();

  /// One training step: done on return, or under way (StepDriver). A loss that is not finite is told and nothing is
  /// updated. Collective.
  void step(const StepRequest& request);
  /// As StepDriver::take_result.
  std::optional<StepResult> take_result(bool all);

  /// L2 part of the loss for the variables after all steps taken. Collective.
  double l2_loss();
  /// Adds variables and moving averages, after all steps taken, to `state`.
  void save(CheckpointState& state) const;

  const Graph& graph() const { return graph_; }
  const ParameterStore& parameters() const { return parameters_; }
  std::size_t activation_bytes() const { return executable_.memory_bytes(); }

 private:
  struct Network {
    Graph graph;
    Value loss;
  };
  static Network build(const Model& model, const Settings& settings, DType activations);
  Tower(Network network, const Model& model, const Settings& settings, Device& device, Communicator& communicator);
  void enqueue_step(const std::function<void()>& before_update);

  Device& device_;
  Communicator& communicator_;
  Graph graph_;
  Value loss_;
  std::unique_ptr<StepDriver> driver_;
  ParameterStore parameters_;
  Executable executable_;
  Reducer reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  double reduce_seconds_ = 0.0;  ///< of the last step, as a CPU spends it
};

enum class StoreArray { values, averages };
/// Copies `arrays`, of the checkpoint `path`, into the parameters of the same names. Errors: data, as Tower::load.
void load_arrays(const std::vector<NamedArray>& arrays, ParameterStore& store, Device& device, StoreArray target,
                 const std::filesystem::path& path);

}  // namespace carillon
