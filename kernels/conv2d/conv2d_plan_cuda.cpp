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

/// Identifiers of a graph's tensors. A run of the graph maps these identifiers to memory.
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

/// Adds the window to the attributes of a convolution or of one of its gradients.
template <typename Attributes>
Attributes with_window(Attributes attributes, const Conv2dLayout& layout) {
  attributes.set_pre_padding(to_vector(layout.padding_before))
      .set_post_padding(to_vector(layout.padding_after))
      .set_stride(to_vector(layout.stride))
      .set_dilation(to_vector(layout.dilation));
  return attributes;
}

TensorHandle add_forward(frontend::graph::Graph& graph, const Conv2dTask& task) {
  const Conv2dLayout& layout = task.layout;
  const TensorHandle y =
      graph.conv_fprop(input(graph, layout.x, x_uid, task.type), input(graph, layout.weights, weights_uid, task.type),
                       with_window(deterministic<frontend::graph::Conv_fprop_attributes>(), layout));
  if (task.pass == Conv2dPass::forward) return y;
  return graph.pointwise(
      y, input(graph, layout.biases, biases_uid, DType::f32),
      deterministic<frontend::graph::Pointwise_attributes>().set_mode(frontend::PointwiseMode_t::ADD));
}

/// Adds the operations of the task. The graph writes the result to memory.
void add_operations(frontend::graph::Graph& graph, const Conv2dTask& task) {
  const Conv2dLayout& layout = task.layout;
  graph.set_intermediate_data_type(frontend::DataType_t::FLOAT).set_compute_data_type(frontend::DataType_t::FLOAT);
  if (task.pass == Conv2dPass::weights_gradient) {
    const TensorHandle dw =
        graph.conv_wgrad(input(graph, layout.y, y_uid, task.type), input(graph, layout.x, x_uid, task.type),
                         with_window(deterministic<frontend::graph::Conv_wgrad_attributes>(), layout));
    describe(*dw, layout.weights, weights_uid, task.type).set_output(true);
  } else if (task.pass == Conv2dPass::data_gradient) {
    const TensorHandle dx =
        graph.conv_dgrad(input(graph, layout.y, y_uid, task.type), input(graph, layout.weights, weights_uid, task.type),
                         with_window(deterministic<frontend::graph::Conv_dgrad_attributes>(), layout));
    describe(*dx, layout.x, x_uid, task.type).set_output(true);
  } else {
    describe(*add_forward(graph, task), layout.y, y_uid, task.type).set_output(true);
  }
}

/// Returns cuDNN's numerical notes that make a kernel unacceptable. cudnn_graph.h adds the note NONDETERMINISTIC.
std::vector<frontend::NumericalNote_t> unwanted_notes(Arithmetic arithmetic) {
  using Note = frontend::NumericalNote_t;
  std::vector<Note> notes{
      Note::REDUCED_PRECISION_REDUCTION, Note::DOWN_CONVERT_INPUTS, Note::FFT, Note::WINOGRAD, Note::WINOGRAD_TILE_4x4,
      Note::WINOGRAD_TILE_6x6,           Note::WINOGRAD_TILE_13x13};
  if (arithmetic == Arithmetic::fp32) notes.push_back(Note::TENSOR_CORE);
  return notes;
}

/// The requirements that a plan must meet in addition to acceptable numerical notes.
struct PlanDemands {
  /// The plan must use tensor cores: the heuristics sometimes prefer a slower plan without tensor cores.
  bool tensor_cores = false;
  bool divided_sums = false;  ///< the plan must divide the sums of a weight gradient into at least least_parts parts
};

/// A weight gradient has few results, and each result is a sum over all pixels of the batch. Blocks of 64x64 results
/// would leave most of a GPU idle, unless the sums are also divided into parts. For small images with few channels,
/// cuDNN's heuristic does not divide the sums. Such a plan took 495 us on an H200; a plan with divided sums takes a
/// tenth of this time. Returns the smallest acceptable number of parts, or 1 if no division is necessary.
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

/// Returns sets of requirements, in the order in which they are tried. The last set has no requirement.
std::vector<PlanDemands> plan_demands(const Conv2dTask& task) {
  std::vector<PlanDemands> all;
  for (const bool tensor_cores : {true, false}) {
    for (const bool divided_sums : {true, false}) {
      const bool pointless = (tensor_cores && task.arithmetic == Arithmetic::fp32) ||  // unwanted_notes excludes tensor
                                                                                       // cores
                             (divided_sums && least_parts(task) == 1);
      if (!pointless) all.push_back({tensor_cores, divided_sums});
    }
  }
  return all;
}

/// A graph with all plans that cuDNN's heuristics propose. Plan 0 is the fastest according to the heuristics. A plan is
/// built on demand.
class PlannedGraph : public frontend::graph::Graph {
 public:
  /// Makes the graph of the task, and deselects the plans that are not acceptable.
  frontend::error_t propose(const CudnnTarget& target, const Conv2dTask& task) {
    add_operations(*this, task);
    frontend::error_t status = propose_plans(*this, target, unwanted_notes(task.arithmetic), task.workspace_bytes);
    if (status.is_good()) deselect_behavior_notes({frontend::BehaviorNote_t::RUNTIME_COMPILATION});
    return status;
  }

  std::string name(std::int64_t index) const {
    std::string found;
    return get_plan_name_at_index(index, found).is_bad() ? "?" : found;
  }
  bool on_tensor_cores(std::int64_t index) const {
    const auto& notes = plans.numeric_notes.at(static_cast<std::size_t>(index));
    return std::ranges::find(notes, frontend::NumericalNote_t::TENSOR_CORE) != notes.end();
  }
  /// `too_few`: substrings of plan names. If the name of a plan contains one of them, the plan divides the sums into
  /// too few parts.
  bool meets(std::int64_t index, const PlanDemands& demands, std::span<const std::string> too_few) const {
    if (demands.tensor_cores && !on_tensor_cores(index)) return false;
    const auto is_in_name = [full = name(index)](const std::string& part) { return full.find(part) != full.npos; };
    return !demands.divided_sums || std::ranges::none_of(too_few, is_in_name);
  }
};

/// Returns substrings of plan names. If the name of a plan contains one of them, the plan divides its sums into fewer
/// than `least` parts. Knob 0 of an engine is the number of parts. Engines without this knob divide sums in other ways.
std::vector<std::string> names_of_fewer_parts(std::int64_t least) {
  std::vector<std::string> names;
  for (std::int64_t parts = 1; parts < least; ++parts) names.push_back(fmt::format("_k0={}_", parts));
  return names;
}

}  // namespace

struct Conv2dPlan::Implementation {
  std::shared_ptr<PlannedGraph> graph;
  std::int64_t index;  ///< number of a plan that is built

  /// Builds the first plan that `is_wanted` accepts and cuDNN can build. Returns null if there is no such plan.
  template <typename IsWanted>
  static std::unique_ptr<Conv2dPlan> build_first(const std::shared_ptr<PlannedGraph>& graph,
                                                 const IsWanted& is_wanted) {
    for (std::int64_t index = 0; index < graph->get_execution_plan_count(); ++index) {
      if (!is_wanted(index) || graph->build_plan_at_index(index).is_bad()) continue;
      return std::unique_ptr<Conv2dPlan>(
          new Conv2dPlan(std::make_unique<Implementation>(Implementation{graph, index})));
    }
    return nullptr;
  }
};

Conv2dPlan::Conv2dPlan(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Conv2dPlan::~Conv2dPlan() = default;

std::unique_ptr<Conv2dPlan> Conv2dPlan::find(const CudnnTarget& target, const Conv2dTask& task, std::string& reason,
                                             std::span<const MeasuredPlan> measured) {
  try {
    const auto graph = std::make_shared<PlannedGraph>();
    frontend::error_t status = graph->propose(target, task);
    if (status.is_bad()) {
      reason = first_line(status.get_message());
      return nullptr;
    }
    if (!measured.empty()) {
      const std::string_view kernel = measured_kernel(measured, text(target, task));
      const auto is_measured = [&](std::int64_t index) { return !kernel.empty() && graph->name(index) == kernel; };
      if (auto plan = Implementation::build_first(graph, is_measured)) return plan;
    }
    const std::vector<std::string> too_few = names_of_fewer_parts(least_parts(task));
    for (const PlanDemands& demands : plan_demands(task)) {
      const auto is_wanted = [&](std::int64_t index) { return graph->meets(index, demands, too_few); };
      if (auto plan = Implementation::build_first(graph, is_wanted)) return plan;
    }
    reason = fmt::format("none of {} plans is acceptable", graph->get_execution_plan_count());
  } catch (const std::exception& error) {  // cuDNN reports some errors by an exception
    reason = first_line(error.what());
  }
  return nullptr;
}

std::vector<std::unique_ptr<Conv2dPlan>> Conv2dPlan::candidates(const CudnnTarget& target, const Conv2dTask& task,
                                                                std::size_t count) {
  std::vector<std::unique_ptr<Conv2dPlan>> found;
  const auto graph = std::make_shared<PlannedGraph>();
  if (graph->propose(target, task).is_bad()) return found;
  std::int64_t next = 0;
  while (found.size() < count) {
    auto plan = Implementation::build_first(graph, [&](std::int64_t index) { return index >= next; });
    if (!plan) break;
    next = plan->implementation_->index + 1;
    found.push_back(std::move(plan));
  }
  return found;
}

std::string Conv2dPlan::text(const CudnnTarget& target, const Conv2dTask& task) {
  return convolution_text(model_of(target), cudnnGetVersion(), task);
}

void Conv2dPlan::run(cudnnHandle_t handle, const Memory& memory, void* workspace) const {
  std::unordered_map<std::int64_t, void*> by_uid{
      {x_uid, memory.x}, {weights_uid, memory.weights}, {biases_uid, memory.biases}, {y_uid, memory.y}};
  const auto& [graph, index] = *implementation_;
  frontend::error_t status = graph->execute_plan_at_index(handle, by_uid, workspace, index);
  if (status.is_bad()) fail(ExitCode::failed, "cuDNN: {}", first_line(status.get_message()));
}

std::size_t Conv2dPlan::workspace_bytes() const {
  const auto& [graph, index] = *implementation_;
  return static_cast<std::size_t>(graph->get_workspace_size_plan_at_index(index));
}

bool Conv2dPlan::on_tensor_cores() const { return implementation_->graph->on_tensor_cores(implementation_->index); }

std::string Conv2dPlan::kernel() const { return implementation_->graph->name(implementation_->index); }

}  // namespace carillon
