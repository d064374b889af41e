#include "kernels/attention/attention_plan_cuda.h"

#include <cstdint>
#include <exception>
#include <unordered_map>
#include <vector>

#include "carillon/core/error.h"
#include "kernels/shared/cudnn_graph.h"

namespace carillon {
namespace {

namespace frontend = cudnn_frontend;
using CudnnGraph = frontend::graph::Graph;
using frontend::graph::Tensor_attributes;
using TensorHandle = std::shared_ptr<Tensor_attributes>;

/// Identifiers of a graph's tensors. A run of the graph maps these identifiers to memory.
enum Uid : std::int64_t { q_uid = 1, k_uid, v_uid, y_uid, statistics_uid, dy_uid, dq_uid, dk_uid, dv_uid };

/// Describes one part of a tensor [batch, tokens, parts, heads, head_size] to cuDNN, as a tensor [batch, heads, tokens,
/// head_size].
Tensor_attributes& describe(Tensor_attributes& attributes, const AttentionShape& shape, std::int64_t parts, Uid uid) {
  const std::int64_t row = parts * shape.width;
  return attributes.set_uid(uid)
      .set_dim({shape.batch, shape.heads, shape.tokens, shape.head_size()})
      .set_stride({shape.tokens * row, shape.head_size(), row, 1})
      .set_data_type(frontend::DataType_t::BFLOAT16);
}

Tensor_attributes& describe_statistics(Tensor_attributes& attributes, const AttentionShape& shape) {
  return attributes.set_uid(statistics_uid)
      .set_dim({shape.batch, shape.heads, shape.tokens, 1})
      .set_stride({shape.heads * shape.tokens, shape.tokens, 1, 1})
      .set_data_type(frontend::DataType_t::FLOAT);
}

TensorHandle input(CudnnGraph& graph, const AttentionShape& shape, std::int64_t parts, Uid uid) {
  Tensor_attributes attributes;
  return graph.tensor(describe(attributes, shape, parts, uid));
}

void add_forward(CudnnGraph& graph, const AttentionShape& shape, bool with_statistics) {
  const auto [y, statistics] =
      graph.sdpa(input(graph, shape, 3, q_uid), input(graph, shape, 3, k_uid), input(graph, shape, 3, v_uid),
                 deterministic<frontend::graph::SDPA_attributes>()
                     .set_generate_stats(with_statistics)
                     .set_attn_scale(shape.scale()));
  describe(*y, shape, 1, y_uid).set_output(true);
  if (with_statistics) describe_statistics(*statistics, shape).set_output(true);
}

void add_backward(CudnnGraph& graph, const AttentionShape& shape) {
  Tensor_attributes attributes;
  const TensorHandle statistics = graph.tensor(describe_statistics(attributes, shape));
  const auto [dq, dk, dv] =
      graph.sdpa_backward(input(graph, shape, 3, q_uid), input(graph, shape, 3, k_uid), input(graph, shape, 3, v_uid),
                          input(graph, shape, 1, y_uid), input(graph, shape, 1, dy_uid), statistics,
                          deterministic<frontend::graph::SDPA_backward_attributes>().set_attn_scale(shape.scale()));
  describe(*dq, shape, 3, dq_uid).set_output(true);
  describe(*dk, shape, 3, dk_uid).set_output(true);
  describe(*dv, shape, 3, dv_uid).set_output(true);
}

void add_operations(CudnnGraph& graph, const CudnnTarget& target, const AttentionTask& task) {
  // The SM version is set first, because nodes copy the version when they are added. If a graph has no SM version, the
  // frontend uses the version of the current device.
  if (!target.handle) graph.set_sm_version(model_of(target).compute_capability);
  graph.set_io_data_type(frontend::DataType_t::BFLOAT16)
      .set_intermediate_data_type(frontend::DataType_t::FLOAT)
      .set_compute_data_type(frontend::DataType_t::FLOAT);
  if (task.pass == AttentionPass::backward) return add_backward(graph, task.shape);
  add_forward(graph, task.shape, task.pass == AttentionPass::training);
}

frontend::error_t choose_plan(CudnnGraph& graph, const CudnnTarget& target, std::size_t workspace_bytes) {
  const frontend::error_t status = propose_plans(graph, target, {}, workspace_bytes);
  if (status.is_bad()) return status;
  return graph.build_plans(frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE);
}

}  // namespace

struct AttentionPlan::Implementation {
  explicit Implementation(const AttentionShape& of) : shape(of) {}

  AttentionShape shape;
  CudnnGraph graph;
};

AttentionPlan::AttentionPlan(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
AttentionPlan::~AttentionPlan() = default;

std::unique_ptr<AttentionPlan> AttentionPlan::find(const CudnnTarget& target, const AttentionTask& task,
                                                   std::string& reason) {
  auto implementation = std::make_unique<Implementation>(task.shape);
  try {
    add_operations(implementation->graph, target, task);
    frontend::error_t status = choose_plan(implementation->graph, target, task.workspace_bytes);
    if (status.is_good()) return std::unique_ptr<AttentionPlan>(new AttentionPlan(std::move(implementation)));
    reason = first_line(status.get_message());
  } catch (const std::exception& error) {  // cuDNN reports some errors by an exception
    reason = first_line(error.what());
  }
  return nullptr;
}

void AttentionPlan::run(cudnnHandle_t handle, const Memory& memory, void* workspace) const {
  const auto part = [&](void* qkv, std::int64_t number) {
    return qkv == nullptr ? nullptr : static_cast<std::uint16_t*>(qkv) + number * implementation_->shape.width;
  };
  std::unordered_map<std::int64_t, void*> by_uid{{q_uid, part(memory.qkv, 0)},
                                                 {k_uid, part(memory.qkv, 1)},
                                                 {v_uid, part(memory.qkv, 2)},
                                                 {y_uid, memory.y},
                                                 {dy_uid, memory.dy},
                                                 {statistics_uid, memory.statistics},
                                                 {dq_uid, part(memory.dqkv, 0)},
                                                 {dk_uid, part(memory.dqkv, 1)},
                                                 {dv_uid, part(memory.dqkv, 2)}};
  frontend::error_t status = implementation_->graph.execute(handle, by_uid, workspace);
  if (status.is_bad()) fail(ExitCode::failed, "cuDNN: {}", first_line(status.get_message()));
}

std::size_t AttentionPlan::workspace_bytes() const {
  return static_cast<std::size_t>(implementation_->graph.get_workspace_size());
}

std::string AttentionPlan::kernel() const {
  std::string name;
  if (implementation_->graph.get_plan_name(name).is_bad()) return "?";
  return name;
}

}  // namespace carillon
