// AttentionPlan: attention or its gradient as one fused operation of cuDNN, in bf16. CUDA builds only.
//
// Scores stay on the chip, so the operation reads and writes only q, k, v and y. cuDNN compiles its kernels at run
// time, which takes about half a second of processor time for each plan. Therefore layers of equal shape share one plan
// (CudaDevice::shared).
//
// The backward operation is requested as deterministic, because cuDNN's default backward operation adds in an undefined
// order, and cuDNN has no note about this.
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
  std::size_t workspace_bytes = 0;  ///< available workspace
};

class AttentionPlan {
 public:
  /// The memory of each tensor, in bf16. `statistics`: the log-sum-exp of each row of scores, float32 [batch, heads,
  /// tokens].
  struct Memory {
    void *qkv = nullptr, *y = nullptr, *statistics = nullptr, *dy = nullptr, *dqkv = nullptr;
  };

  /// The first plan of cuDNN's heuristics that fits the workspace. Null if there is none, for example for a head size
  /// that is not a multiple of 8; `reason` is then cuDNN's message.
  static std::unique_ptr<AttentionPlan> find(const CudnnTarget& target, const AttentionTask& task, std::string& reason);
  ~AttentionPlan();

  /// Enqueues the operation on the handle's stream. `workspace`: memory of the task's workspace_bytes.
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
