// Executable: a graph with memory on a device, ready to run.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "carillon/graph/graph.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"
#include "src/graph/memory_plan.h"

namespace carillon {

class TiledOps;
struct BatchTile;

/// The objects that an executable uses and does not own. The stores are made from the graph's specs and outlive the
/// executable.
struct ExecutableContext {
  Device& device;
  const ParameterStore& parameters;
  const BufferStore& buffers;
  const StepInputs& inputs;     ///< InputStage::inputs
  TowerLink* towers = nullptr;  ///< link to the other ranks; null: the rank computes without the other ranks
  Value loss = {};              ///< the loss, which training adds to the step sums; no value: there are no step sums
  /// Outside training: the ops read the compute copies of `parameters`. The compute copies must be current and have the
  /// formats that the ops of the graph read.
  bool reads_compute_copies = false;
};

/// Selects whether ops process the batch tile by tile (src/graph/batch_tiling.h).
enum class Tiling {
  automatic,  ///< tile sections if their ops are faster with tiles
  never,      ///< each op completes before the next begins, so that OpDone can read its results
};

class Executable {
 public:
  /// Called when the work of an op is enqueued. Until the work of the next op is enqueued, the outputs of the op can be
  /// read. In the backward pass, the gradients that the op computes can be read until then. Requires Tiling::never.
  using OpDone = std::function<void(int op)>;

  /// `training`: computes gradients and updates buffers. `results`: values that can be read after `forward` and after
  /// `backward`.
  Executable(const Graph& graph, const ExecutableContext& context, bool training, std::vector<Value> results,
             Tiling tiling = Tiling::automatic);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  /// Enqueues all ops in order (src/graph/batch_tiling.h).
  void forward(Stream& stream, const OpDone& op_done = {});
  /// Enqueues the backward pass: runs, in reverse order, all ops with an output that wants a gradient. Calls
  /// `parameter_done` when a parameter's gradient is complete, in the order of ParameterLayout::order(), also for
  /// parameters without a gradient. Requires training.
  void backward(Stream& stream, const std::function<void(int parameter)>& parameter_done, const OpDone& op_done = {});

  /// Returns the tensor of a value. The tensor has no data if only one tiled section reads the value and the value is
  /// not a result.
  const Tensor& tensor(Value value) const { return values_.at(value.index).tensor; }
  /// Returns the gradient of the loss with respect to a value. The tensor has no data outside training, if no op wants
  /// the gradient, or if only one tiled section uses it.
  Tensor gradient(Value value) const { return gradients_.empty() ? Tensor{} : gradients_.at(value.index).tensor; }
  /// Returns the gradient that a node of the graph computes for parameter number `position` of its list. If several ops
  /// share the parameter, this is a part of the parameter's gradient. `parameters`: the store of the context.
  Tensor parameter_gradient(const Graph::Node& node, std::size_t position, const ParameterStore& parameters) const;
  /// True if backward writes the step sums. In this case, `forward` does not compute the loss.
  bool writes_step_sums() const { return writes_step_sums_; }
  /// Bytes of activations and their gradients.
  std::size_t memory_bytes() const { return memory_.bytes(); }

 private:
  struct Place {
    Tensor tensor;            ///< tensor of the whole batch
    bool per_worker = false;  ///< the memory of the tensor holds one tile per worker
  };
  struct Backward {
    std::vector<bool> runs;       ///< for each op of the section: true if its backward runs
    std::vector<int> parameters;  ///< parameters, in the order in which `parameter_done` is called
  };

  void check_observable(const OpDone& op_done) const;
  void place_tensors(const Graph& graph, Device& device, const std::vector<Lifetime>& lifetimes);
  OpTensors tensors_of(const Graph::Node& node, const ExecutableContext& context, bool training,
                       const TiledSection& section, const BatchTile& tile) const;
  /// Sets Backward::parameters. A parameter is complete after the section of the first op that lists it.
  void order_parameters(const Graph& graph, const std::vector<TiledSection>& sections, const ParameterLayout& layout);
  /// Adds to `tensors` the tensors that the op computes for other ops, and removes the tensors that other ops compute
  /// for this op. Requires training.
  void share_work(const Graph& graph, const Graph::Node& node, const ExecutableContext& context, OpTensors& tensors);

  Tiling tiling_;
  bool writes_step_sums_ = false;
  Buffer memory_;
  std::vector<Place> values_, gradients_;  ///< the places of the values, by value index
  std::vector<std::unique_ptr<TiledOps>> sections_;
  std::vector<Backward> backward_;  ///< backward of each section
};

}  // namespace carillon
