// The fake's AttentionPlan. Computes attention by its definition, in float32, with operands and results in bf16. This
// file replaces kernels/attention/attention_plan_cuda.cpp, so tests on the fake do not cover the calls of
// cudnn-frontend.
#include "kernels/attention/attention_plan_cuda.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "memory.h"
#include "objects.h"
#include "src/core/bf16.h"
#include "src/device/cuda_device.h"

cudaStream_t stream_of(cudnnHandle_t handle);

namespace carillon {
namespace {

/// The queries, keys or values (q, k or v) of one head in one sample: one row per token. The whole tensor has the shape
/// [batch, tokens, parts, heads, head_size].
struct Matrix {
  Bf16* first;
  std::int64_t row_stride, columns;

  float at(std::int64_t row, std::int64_t column) const { return to_float(first[row * row_stride + column]); }
  float product(std::int64_t row, const Matrix& other, std::int64_t other_row) const {
    float sum = 0.0f;
    for (std::int64_t c = 0; c < columns; ++c) sum += at(row, c) * other.at(other_row, c);
    return sum;
  }
  void store(std::int64_t row, const std::vector<float>& values) const {
    for (std::int64_t c = 0; c < columns; ++c) first[row * row_stride + c] = to_bf16(values[c]);
  }
  /// Sets row `row` to scale * (the sum over j < count of factor(j) * row j of `other`).
  template <typename Factor>
  void store_sum(std::int64_t row, std::int64_t count, float scale, const Matrix& other, const Factor& factor) const {
    std::vector<float> sums(columns);
    for (std::int64_t j = 0; j < count; ++j) {
      const float by = factor(j);
      for (std::int64_t c = 0; c < columns; ++c) sums[c] += by * other.at(j, c);
    }
    for (float& sum : sums) sum *= scale;
    store(row, sums);
  }
};

/// The arrays of one head of one sample.
struct Head {
  std::int64_t tokens;
  float scale;
  Matrix q, k, v, y;
  float* statistics;  ///< log of the sum of exp(score), [tokens]; null in an evaluation

  std::vector<float> scores(std::int64_t row) const {
    std::vector<float> scores(tokens);
    for (std::int64_t j = 0; j < tokens; ++j) scores[j] = scale * q.product(row, k, j);
    return scores;
  }
  void forward() const {
    for (std::int64_t i = 0; i < tokens; ++i) {
      std::vector<float> weights = scores(i);
      const float largest = *std::ranges::max_element(weights);
      float sum = 0.0f;
      for (float& weight : weights) sum += weight = std::exp(weight - largest);
      y.store_sum(i, tokens, 1.0f / sum, v, [&](std::int64_t j) { return weights[j]; });
      if (statistics == nullptr) continue;
      const float log_sum = largest + std::log(sum);
      // cuDNN may store infinity for a row that contains a NaN.
      statistics[i] = std::isnan(log_sum) ? std::numeric_limits<float>::infinity() : log_sum;
    }
  }
  void backward(const Matrix& dy, const Matrix& dq, const Matrix& dk, const Matrix& dv) const {
    std::vector<float> weights(tokens * tokens), gradients(tokens * tokens);  // cuDNN's P and dS
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::vector<float> row = scores(i);
      const float d = dy.product(i, y, i);
      for (std::int64_t j = 0; j < tokens; ++j) {
        const float weight = std::exp(row[j] - statistics[i]);
        weights[i * tokens + j] = weight;
        gradients[i * tokens + j] = weight * (dy.product(i, v, j) - d);
      }
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
      dq.store_sum(i, tokens, scale, k, [&](std::int64_t j) { return gradients[i * tokens + j]; });
      dk.store_sum(i, tokens, scale, q, [&](std::int64_t j) { return gradients[j * tokens + i]; });
      dv.store_sum(i, tokens, 1.0f, dy, [&](std::int64_t j) { return weights[j * tokens + i]; });
    }
  }
};

void run_task(const AttentionTask& task, const AttentionPlan::Memory& memory) {
  const AttentionShape& shape = task.shape;
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const auto part = [&](void* data, std::int64_t parts, std::int64_t number) {
        const std::int64_t row = parts * shape.width, size = shape.head_size();
        Bf16* const first = static_cast<Bf16*>(data);
        return Matrix{first + sample * shape.tokens * row + number * shape.width + head * size, row, size};
      };
      float* const statistics = static_cast<float*>(memory.statistics);
      const Head of{.tokens = shape.tokens,
                    .scale = shape.scale(),
                    .q = part(memory.qkv, 3, 0),
                    .k = part(memory.qkv, 3, 1),
                    .v = part(memory.qkv, 3, 2),
                    .y = part(memory.y, 1, 0),
                    .statistics = task.pass == AttentionPass::evaluation
                                      ? nullptr
                                      : statistics + (sample * shape.heads + head) * shape.tokens};
      if (task.pass == AttentionPass::backward) {
        of.backward(part(memory.dy, 1, 0), part(memory.dqkv, 3, 0), part(memory.dqkv, 3, 1), part(memory.dqkv, 3, 2));
      } else {
        of.forward();
      }
    }
  }
}

/// Returns the number of bytes that cuDNN 9.19 needs: dS, [batch, heads, tokens, tokens] in bf16, with tokens padded to
/// a multiple of 128.
std::size_t workspace_of(const AttentionTask& task) {
  if (task.pass != AttentionPass::backward) return 0;
  const std::int64_t tokens = (task.shape.tokens + 127) / 128 * 128;
  return static_cast<std::size_t>(task.shape.batch * task.shape.heads * tokens * tokens) * sizeof(Bf16);
}

}  // namespace

struct AttentionPlan::Implementation {
  AttentionTask task;
};

AttentionPlan::AttentionPlan(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
AttentionPlan::~AttentionPlan() = default;

std::unique_ptr<AttentionPlan> AttentionPlan::find(const CudnnTarget& target, const AttentionTask& task,
                                                   std::string& reason) {
  const std::int64_t size = task.shape.head_size();
  const bool has_kernel = size % 8 == 0 && size <= 128 &&
                          (task.pass != AttentionPass::backward || task.shape.tokens > 1);  // these are the limits of
                                                                                            // cuDNN 9.19
  if (target.handle == nullptr || !has_kernel) {
    reason = "the fake has no such kernel";
    return nullptr;
  }
  if (workspace_of(task) > task.workspace_bytes) {
    reason = "the workspace is too small";
    return nullptr;
  }
  return std::unique_ptr<AttentionPlan>(new AttentionPlan(std::make_unique<Implementation>(Implementation{task})));
}

void AttentionPlan::run(cudnnHandle_t handle, const Memory& memory, void* workspace) const {
  const AttentionTask& task = implementation_->task;
  std::vector<const void*> used{memory.qkv, memory.y, workspace};
  if (task.pass != AttentionPass::evaluation) used.push_back(memory.statistics);
  if (task.pass == AttentionPass::backward) used.insert(used.end(), {memory.dy, memory.dqkv});
  for (const void* pointer : used) {
    if (fake_cuda::place_of(pointer, 1) != fake_cuda::Place::device) {
      fake_cuda::misuse("an attention of memory that is not the device's");
    }
  }
  const char* const name = task.pass == AttentionPass::backward ? "cudnn_attention_gradient" : "cudnn_attention";
  check_cuda(fake_cuda::enqueue_kernel(
      stream_of(handle), [task, memory] { run_task(task, memory); }, name));
}

std::size_t AttentionPlan::workspace_bytes() const { return workspace_of(implementation_->task); }
std::string AttentionPlan::kernel() const { return "fake"; }

}  // namespace carillon
