// Executable: a graph with memory and a device, ready to run.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "carillon/graph/buffers.h"
#include "carillon/graph/graph.h"
#include "carillon/graph/op.h"
#include "src/graph/memory_plan.h"

namespace carillon {

class TiledOps;
struct BatchTile;

/// What an executable works on and does not own: made from the graph's specs, alive for as long as it is.
struct ExecutableContext {
  Device& device;
  const ParameterStore& parameters;
  const BufferStore& buffers;
  const StepInputs& inputs;     ///< InputStage::inputs
  TowerLink* towers = nullptr;  ///< null: nothing is computed with others
  Value loss = {};              ///< that training tells in the step sums; none: nobody asks for them
};

/// Whether ops take the batch slice by slice (src/graph/batch_tiling.h).
enum class Tiling {
  automatic,  ///< where that pays
  never,      ///< each op is over before the next begins, so that what it made can be looked at
};

class Executable {
 public:
  /// Is told that the work of an op is enqueued: its outputs can be read behind that, or, in the backward pass, the
  /// gradients that it makes, until the next op's work is. For Tiling::never only.
  using OpDone = std::function<void(int op)>;

  /// `training`: with gradients, buffers change. `results`: what can be read after `forward`, and after `backward`.
  Executable(const Graph& graph, const ExecutableContext& context, bool training, std::vector<Value> results,
             Tiling tiling = Tiling::automatic);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  /// Enqueues all ops in order (src/graph/batch_tiling.h).
  void forward(Stream& stream, const OpDone& op_done = {});
  /// Enqueues in reverse order the backward of all ops whose outputs want a gradient; calls `parameter_done` when a
  /// parameter's gradient is complete, in the order of ParameterLayout::order(), also where there is none. Requires
  /// training.
  void backward(Stream& stream, const std::function<void(int parameter)>& parameter_done, const OpDone& op_done = {});

  /// No data for a value that only ops of a section read, unless it is a result.
  const Tensor& tensor(Value value) const { return values_.at(value.index).tensor; }
  /// The gradient of the loss by a value; no data unless in training, wanted, and of the whole batch.
  Tensor gradient(Value value) const { return gradients_.empty() ? Tensor{} : gradients_.at(value.index).tensor; }
  /// Whether backward writes the step sums; the loss is then not to be had after `forward`.
  bool writes_step_sums() const { return writes_step_sums_; }
  /// Bytes of activations and their gradients.
  std::size_t memory_bytes() const { return memory_.bytes(); }

 private:
  struct Place {
    Tensor tensor;          ///< of the batch
    bool of_slice = false;  ///< its memory holds a slice for each worker
  };
  struct Backward {
    std::vector<bool> runs;       ///< by op of the section
    std::vector<int> parameters;  ///< in the order in which their gradients are reported
  };

  void check_observable(const OpDone& op_done) const;
  void place_tensors(const Graph& graph, Device& device, const std::vector<Lifetime>& lifetimes);
  OpTensors tensors_of(const Graph::Node& node, const ExecutableContext& context, bool training,
                       const TiledSection& section, const BatchTile& place) const;
  /// Gives `tensors` of the graph's op, in training, what it does for others, and takes what others do for it.
  void share_work(const Graph& graph, const Graph::Node& node, const ExecutableContext& context, OpTensors& tensors);

  Tiling tiling_;
  bool writes_step_sums_ = false;
  Buffer memory_;
  std::vector<Place> values_, gradients_;  ///< by value index
  std::vector<std::unique_ptr<TiledOps>> sections_;
  std::vector<Backward> backward_;  ///< by section
};

}  // namespace carillon
