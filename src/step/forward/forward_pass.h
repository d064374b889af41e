// ForwardPass: computes the outputs of a trained network for batches of images.
//
//   pass->enqueue(batch); while (outputs = pass->next_outputs(Results::due)) ...      for each batch
//   while (outputs = pass->next_outputs(Results::all)) ...                            after the last batch
//
// A CPU computes each batch immediately. A GPU keeps up to two blocks of batches in flight. The GPU replays a captured
// forward pass for each batch, and the host reads the outputs of a whole block (src/step/forward/cuda_forward_pass.cu).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "carillon/models/network.h"
#include "src/graph/executable.h"
#include "src/step/drivers/driver.h"
#include "src/step/input/input_stage.h"

namespace carillon {

struct ForwardSettings {
  ImageShape image;                  ///< image shape of a record
  bool averages_views = false;       ///< the outputs of an image are the mean over augmented_views (forward_kernels.h)
  bool capture = true;               ///< replay captured passes, if the device can do this
  const Dataset* dataset = nullptr;  ///< this and the next two members are the same as in InputStageSpec
  RecordRange kept = {};
  std::size_t max_kept_bytes = 0;
};

/// The objects that a forward pass uses without owning them. On a GPU, ops read the compute copies of the parameters,
/// if the store has any: copies with the element type and memory layout that matrix products read.
struct ForwardContext {
  const BuiltNetwork& built;  ///< built for evaluation
  Device& device;
  const ParameterStore& parameters;
  const BufferStore& buffers;
};

class ForwardPass {
 public:
  virtual ~ForwardPass() = default;
  /// See InputStage::keeps_records.
  virtual bool keeps_records() const = 0;
  /// Adds a batch of Graph::batch_size() samples. The caller may release the batch when the call returns. Before the
  /// call, take all outputs that are due.
  virtual void enqueue(const Batch& batch) = 0;
  /// Waits for the next outputs and returns them. These are the outputs of the oldest batch that has not been returned
  /// yet: [batch, output elements], valid until the next call of enqueue. Returns nullopt if no batch is left. With
  /// Results::due, also returns nullopt if the oldest batch may stay in flight. Only the calls determine which batches
  /// are due, not the timing. Errors: failed (the device reports an error), lost_rank (a peer is lost).
  virtual std::optional<std::span<const float>> next_outputs(Results wanted) = 0;
};

std::unique_ptr<ForwardPass> make_forward_pass(const ForwardContext& context, const ForwardSettings& settings);
/// Does the same as make_forward_pass for a GPU. CUDA builds only (cuda_forward_pass.cu).
std::unique_ptr<ForwardPass> make_cuda_forward_pass(const ForwardContext& context, const ForwardSettings& settings);

}  // namespace carillon
