#include "kernels/conv2d/conv2d_plan_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>
#include <unordered_map>
#include <vector>

#include "carillon/core/error.h"
#include "kernels/shared/cudnn_graph.h"

namespace carillon {
namespace {

namespace frontend = cudnn_frontend;
using frontend::graph::Tensor_attributes;
using TensorHandle = std::shared_ptr<Tensor_attributes>;

/// Identifiers of a graph's tensors, which map to memory when it runs.
enum Uid : std::int64_t { x_uid = 1, weights_uid, biases_uid, y_uid };

std::vector<std::int64_t> to_vector(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

frontend::DataType_t to_frontend(DType type) {
  check(type != DType::u8, "a convolution requires f32 or bf16");
  return type == DType::bf16 ? frontend::DataType_t::BFLOAT16 : frontend::DataType_t::FLOAT;
}

Tensor_attributes& describe(Tensor_attributes& attributes, const StridedTensor& tensor, Uid uid, DType type) {
  return attributes.set_uid(uid)
      .set_dim(to_vector(tensor.extents))
      .set_stride(to_vector(tensor.strides))
      .set_data_type(to_frontend(type));
}

TensorHandle input(frontend::graph::Graph& graph, const StridedTensor& tensor, Uid uid, DType type) {
  Tensor_attributes attributes;
  return graph.tensor(describe(attributes, tensor, uid, type));
}

/// Attributes of a convolution or of one of its gradients.
template <typename Attributes>
Attributes window(const Conv2dLayout& layout) {
  Attributes attributes;
  attributes.set_pre_padding(to_vector(layout.padding_before))
      .set_post_padding(to_vector(layout.padding_after))
      .set_stride(to_vector(layout.stride))
      .set_dilation({1, 1});
  return attributes;
}

TensorHandle add_forward(frontend::graph::Graph& graph, const Conv2dTask& task) {
  const Conv2dLayout& layout = task.layout;
  const TensorHandle y =
      graph.conv_fprop(input(graph, layout.x, x_uid, task.type), input(graph, layout.weights, weights_uid, task.type),
                       window<frontend::graph::Conv_fprop_attributes>(layout));
  if (task.pass == Conv2dPass::forward) return y;
  return graph.pointwise(y, input(graph, layout.biases, biases_uid, DType::f32),
                         frontend::graph::Pointwise_attributes().set_mode(frontend::PointwiseMode_t::ADD));
}

/// The operations of the task, with the result in memory.
void add_operations(frontend::graph::Graph& graph, const Conv2dTask& task) {
  const Conv2dLayout& layout = task.layout;
  graph.set_intermediate_data_type(frontend::DataType_t::FLOAT).set_compute_data_type(frontend::DataType_t::FLOAT);
  if (task.pass == Conv2dPass::weights_gradient) {
    const TensorHandle dw =
        graph.conv_wgrad(input(graph, layout.y, y_uid, task.type), input(graph, layout.x, x_uid, task.type),
                         window<frontend::graph::Conv_wgrad_attributes>(layout));
    describe(*dw, layout.weights, weights_uid, task.type).set_output(true);
  } else if (task.pass == Conv2dPass::data_gradient) {
    const TensorHandle dx =
        graph.conv_dgrad(input(graph, layout.y, y_uid, task.type), input(graph, layout.weights, weights_uid, task.type),
                         window<frontend::graph::Conv_dgrad_attributes>(layout));
    describe(*dx, layout.x, x_uid, task.type).set_output(true);
  } else {
    describe(*add_forward(graph, task), layout.y, y_uid, task.type).set_output(true);
  }
}

/// cuDNN's notes on kernels that are not acceptable.
std::vector<frontend::NumericalNote_t> unwanted_notes(Arithmetic arithmetic) {
  using Note = frontend::NumericalNote_t;
  std::vector<Note> notes{
      Note::NONDETERMINISTIC, Note::REDUCED_PRECISION_REDUCTION, Note::DOWN_CONVERT_INPUTS, Note::FFT,
      Note::WINOGRAD,         Note::WINOGRAD_TILE_4x4,           Note::WINOGRAD_TILE_6x6,   Note::WINOGRAD_TILE_13x13};
  if (arithmetic == Arithmetic::fp32) notes.push_back(Note::TENSOR_CORE);
  return notes;
}

/// What a plan must have, besides acceptable notes.
struct PlanDemands {
  bool tensor_cores = false;  ///< the heuristics sometimes prefer a kernel without them, which is slower
  bool divided_sums = false;  ///< no plan that divides the sums of a weight gradient into fewer parts than least_parts
};

/// A weight gradient adds over all pixels of the batch for few results. Blocks of 64x64 results would leave most of a
/// GPU idle, unless the sums are divided as well. cuDNN's heuristic overlooks that for small images with few channels:
/// it took 495 us on an H200 where a divided sum takes a tenth. 1: no division is necessary.
std::int64_t least_parts(const Conv2dTask& task) {
  constexpr std::int64_t blocks = 64;  // about half of the multiprocessors of an A100 or an H200
  constexpr std::int64_t block = 64, least_terms = 512;
  if (task.pass != Conv2dPass::weights_gradient) return 1;
  const auto& [filters, channels, rows, columns] = task.layout.weights.extents;
  const auto& [batch, y_channels, y_rows, y_columns] = task.layout.y.extents;
  const auto in_blocks = [](std::int64_t count) { return (count + block - 1) / block; };
  const std::int64_t wanted = blocks / (in_blocks(filters) * in_blocks(channels * rows * columns));
  return std::max<std::int64_t>(std::min(wanted, batch * y_rows * y_columns / least_terms), 1);
}

/// From the most demanding to none.
std::vector<PlanDemands> plan_demands(const Conv2dTask& task) {
  std::vector<PlanDemands> all;
  for (const bool tensor_cores : {true, false}) {
    for (const bool divided_sums : {true, false}) {
      const bool pointless = (tensor_cores && task.arithmetic == Arithmetic::fp32) ||  // unwanted_notes excludes them
                             (divided_sums && least_parts(task) == 1);
      if (!pointless) all.push_back({tensor_cores, divided_sums});
    }
  }
  return all;
}

/// The first acceptable plan of cuDNN's heuristics. cuDNN reports an error if it has no kernel.
frontend::error_t choose_plan(frontend::graph::Graph& graph, const CudnnTarget& target, const Conv2dTask& task,
                              const PlanDemands& demands) {
  frontend::error_t status = graph.validate();
  if (status.is_good()) status = build_operation_graph(graph, target);
  if (status.is_good()) {
    status = graph.create_execution_plans({frontend::HeurMode_t::A, frontend::HeurMode_t::FALLBACK});
  }
  if (status.is_bad()) return status;
  if (demands.tensor_cores) graph.select_numeric_notes({frontend::NumericalNote_t::TENSOR_CORE});
  graph.deselect_numeric_notes(unwanted_notes(task.arithmetic));
  graph.deselect_behavior_notes({frontend::BehaviorNote_t::RUNTIME_COMPILATION});
  graph.deselect_workspace_greater_than(static_cast<std::int64_t>(task.workspace_bytes));
  if (demands.divided_sums) {
    // Parts of the names of plans. Knob 0 is the number of parts of a sum; engines without it divide in other ways.
    std::vector<std::string> few;
    for (std::int64_t parts = 1; parts < least_parts(task); ++parts) few.push_back(fmt::format("_k0={}_", parts));
    graph.deselect_engines(few);
  }
  return graph.build_plans(frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE);
}

}  // namespace

struct Conv2dPlan::Implementation {
  /// The graph's data about its chosen plan.
  struct PlannedGraph : frontend::graph::Graph {
    const std::vector<frontend::NumericalNote_t>& notes() const {
      return plans.numeric_notes.at(static_cast<std::size_t>(plans.candidate));
    }
  };
  PlannedGraph graph;
};

Conv2dPlan::Conv2dPlan(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Conv2dPlan::~Conv2dPlan() = default;

std::unique_ptr<Conv2dPlan> Conv2dPlan::find(const CudnnTarget& target, const Conv2dTask& task, std::string& reason) {
  for (const PlanDemands& demands : plan_demands(task)) {
    auto implementation = std::make_unique<Implementation>();
    try {
      add_operations(implementation->graph, task);
      frontend::error_t status = choose_plan(implementation->graph, target, task, demands);
      if (status.is_good()) return std::unique_ptr<Conv2dPlan>(new Conv2dPlan(std::move(implementation)));
      reason = first_line(status.get_message());
    } catch (const std::exception& error) {  // cuDNN reports some errors by an exception
      reason = first_line(error.what());
    }
  }
  return nullptr;
}

void Conv2dPlan::run(cudnnHandle_t handle, const Memory& memory, void* workspace) const {
  std::unordered_map<std::int64_t, void*> by_uid{
      {x_uid, memory.x}, {weights_uid, memory.weights}, {biases_uid, memory.biases}, {y_uid, memory.y}};
  frontend::error_t status = implementation_->graph.execute(handle, by_uid, workspace);
  if (status.is_bad()) fail(ExitCode::failed, "cuDNN: {}", first_line(status.get_message()));
}

std::size_t Conv2dPlan::workspace_bytes() const {
  return static_cast<std::size_t>(implementation_->graph.get_workspace_size());
}

bool Conv2dPlan::on_tensor_cores() const {
  const auto& notes = implementation_->graph.notes();
  return std::ranges::find(notes, frontend::NumericalNote_t::TENSOR_CORE) != notes.end();
}

std::string Conv2dPlan::kernel() const {
  std::string name;
  if (implementation_->graph.get_plan_name(name).is_bad()) return "?";
  return name;
}

}  // namespace carillon
