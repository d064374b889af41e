// BufferStore: the tensors that a network keeps from step to step and no optimiser changes, for example the running
// statistics of batch norm.
//
// They are one flat float32 array on the device; each tensor starts at a multiple of 64 bytes. An op writes its buffers
// in the forward pass of training, unless they are AcrossRanks::equal, and reads them in evaluation. Checkpoints store
// them in the group /state.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"

namespace carillon {

/// How checkpoints and evaluations combine the buffers of the ranks. Each rank computes its own buffers, except buffers
/// that are `equal`.
enum class AcrossRanks {
  first,  ///< the buffer of rank 0
  mean,   ///< the mean over the ranks
  equal,  ///< no op changes the buffer, so all ranks have the same values
};

struct BufferSpec {
  std::string name;  ///< "norm1/moving_mean"; no parameter has the same name
  Shape shape;
  float initial_value = 0.0f;
  AcrossRanks across_ranks = AcrossRanks::first;
};

class BufferStore {
 public:
  /// Allocates all buffers and sets them to their initial values.
  BufferStore(std::vector<BufferSpec> specs, Device& device);

  const std::vector<BufferSpec>& specs() const { return specs_; }
  Tensor tensor(int buffer) const;
  /// All buffers, on the device; the gaps between them hold zeros.
  std::span<float> values() const { return {static_cast<float*>(memory_.data()), memory_.bytes() / sizeof(float)}; }

 private:
  std::vector<BufferSpec> specs_;
  std::vector<std::size_t> offsets_;  ///< elements
  Buffer memory_;
};

}  // namespace carillon
