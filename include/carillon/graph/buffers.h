// BufferStore: what a network keeps from step to step and no optimiser touches, as the running statistics of a batch
// norm.
//
// One flat float32 array on the device, each tensor at a multiple of 64 bytes. An op writes its buffers in the forward
// pass of training and reads them in evaluation. Checkpoints hold them in the group /state.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"

namespace carillon {

/// What a state is where ranks have computed different ones, each from its own samples: in checkpoints and evaluations.
enum class AcrossRanks {
  first,  ///< rank 0's
  mean,   ///< the mean over the ranks
};

struct BufferSpec {
  std::string name;  ///< as variables are: "norm1/moving_mean"
  Shape shape;
  float initial_value = 0.0f;
  AcrossRanks across_ranks = AcrossRanks::first;
};

class BufferStore {
 public:
  /// Holding the initial values.
  BufferStore(std::vector<BufferSpec> specs, Device& device);

  const std::vector<BufferSpec>& specs() const { return specs_; }
  Tensor tensor(int state) const;
  /// All of them on the device, with gaps of zeros.
  std::span<float> values() const { return {static_cast<float*>(memory_.data()), memory_.bytes() / sizeof(float)}; }

 private:
  std::vector<BufferSpec> specs_;
  std::vector<std::size_t> offsets_;  ///< elements
  Buffer memory_;
};

}  // namespace carillon
