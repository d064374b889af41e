// AttentionPlan: attention or its gradient, as one fused operation of cuDNN in bf16. CUDA builds only.
//
// Scores stay on the chip: the operation does not write them to memory. cuDNN compiles its kernels at run time, which
// takes about half a second of processor time for each plan. Therefore layers with the same shape share one plan
// (CudaDevice::shared).
//
// The plan asks cuDNN for a deterministic backward operation. cuDNN's default backward operation adds in an undefined
// order, and no numerical note of cuDNN says so.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/attention/attention.h"
#include "src/device/cuda_device.h"

namespace carillon {

enum class AttentionPass {
  training,    ///< y and the statistics that backward needs
  evaluation,  ///< only y
  backward,    ///< the gradient of qkv
};

struct AttentionTask {
  AttentionPass pass = AttentionPass::evaluation;
  AttentionShape shape;
  std::size_t workspace_bytes = 0;  ///< bytes of the workspace that is available
};

class AttentionPlan {
 public:
  /// The memory of each tensor, in bf16. `statistics`: the log-sum-exp of each row of scores, float32 [batch, heads,
  /// tokens].
  struct Memory {
    void *qkv = nullptr, *y = nullptr, *statistics = nullptr, *dy = nullptr, *dqkv = nullptr;
  };

  /// Returns the first plan of cuDNN's heuristics that fits the workspace. If no plan fits, for example because the
  /// head size is not a multiple of 8, returns null and sets `reason` to cuDNN's message.
  static std::unique_ptr<AttentionPlan> find(const CudnnTarget& target, const AttentionTask& task, std::string& reason);
  ~AttentionPlan();

  /// Enqueues the operation on the handle's stream. `workspace`: memory of at least the task's workspace_bytes.
  void run(cudnnHandle_t handle, const Memory& memory, void* workspace) const;

  std::size_t workspace_bytes() const;
  /// cuDNN's name of the engine, with its parameters.
  std::string kernel() const;

 private:
  struct Implementation;
  explicit AttentionPlan(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace carillon
