#include "kernels/elementwise/elementwise.h"

#include "kernels/broadcast/broadcast.h"
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/backend.h"
#include "src/core/has_cuda.h"

namespace carillon {
namespace {

class ElementwiseOp final : public Op {
 public:
  using RunMaps = void (*)(std::span<const ElementwiseMap> maps, Stream& stream);
  ElementwiseOp(ElementwiseMaps maps, RunMaps run) : maps_(std::move(maps)), run_(run) {}

  void forward(Stream& stream) override { run_(maps_.forward, stream); }
  void backward(Stream& stream) override { run_(maps_.backward, stream); }

 private:
  ElementwiseMaps maps_;
  RunMaps run_;
};

bool wants_input_gradient(const OpTensors& tensors, std::size_t input) {
  return !tensors.input_gradients.empty() && tensors.input_gradients.at(input);
}

/// An op with one input. If backward does not read the input, backward works in place. If backward reads the input, the
/// op shares no memory and permits batch tiling.
template <typename F>
class UnaryDefinition final : public OpDefinition {
 public:
  static constexpr bool reads_input = F::backward_reads == BackwardReads::input;
  static constexpr bool can_sum = reads_input && F::is_expensive;

  explicit UnaryDefinition(const F& function) : function_(function) {}
  std::string_view type() const override { return F::type; }
  BackwardNeeds backward_needs() const override {
    return {.inputs = reads_input, .outputs = F::backward_reads == BackwardReads::output};
  }
  std::optional<int> gradient_shares_output(int /*input*/) const override {
    return reads_input ? std::nullopt : std::optional(0);
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    ElementwiseMaps maps{.forward = {{ValueOf<F>{function_}, tensors.inputs.at(0), {}, tensors.outputs.at(0)}},
                         .backward = {}};
    if constexpr (!requires { F::keeps_gradient; }) {
      if (wants_input_gradient(tensors, 0)) maps.backward = {gradient_map(tensors)};
    }
    if constexpr (has_cuda && can_sum) {
      if (tensors.input_gradient_sums) {
        return make_activation_with_sums_cuda(*context.device, maps.forward[0], maps.backward.at(0),
                                              tensors.input_gradient_sums);
      }
    }
    return make_elementwise_op(context, maps);
  }
  /// True if the op also computes OpTensors::input_gradient_sums: on a GPU, for an expensive activation that reads its
  /// input in backward. The op's pass over the gradient takes so long that the sums need little additional time.
  static bool sums_input_gradient(DeviceKind kind, const Shape& /*input*/) {
    return can_sum && kind == DeviceKind::cuda;
  }

 private:
  ElementwiseMap gradient_map(const OpTensors& tensors) const {
    const Tensor &dy = tensors.output_gradients.at(0), &dx = tensors.input_gradients.at(0);
    if constexpr (F::backward_reads == BackwardReads::nothing) {
      return {ValueOf<F>{function_}, dy, {}, dx};
    } else {
      return {GradientOf<F>{function_}, reads_input ? tensors.inputs.at(0) : tensors.outputs.at(0), dy, dx};
    }
  }

  F function_;
};

template <typename F>
Value add_unary(Graph& graph, const std::string& name, Value x, const OpType& type, const F& function,
                const Attributes& attributes = {}) {
  using Definition = UnaryDefinition<F>;
  ActivationKind activation = ActivationKind::none;
  if constexpr (requires { F::activation; }) activation = F::activation;
  return graph.add_op({.name = name,
                       .definition = std::make_shared<Definition>(function),
                       .inputs = {x},
                       .traits = {.activation = activation,
                                  .sums_input_gradient = &Definition::sums_input_gradient,
                                  .samples_are_independent = Definition::reads_input},
                       .type = &type,
                       .attributes = attributes},
                      graph.shape(x));
}

class AddDefinition final : public OpDefinition {
 public:
  explicit AddDefinition(bool with_relu = false, bool shares_gradients = false)
      : with_relu_(with_relu), shares_gradients_(shares_gradients) {}
  std::string_view type() const override { return "add"; }
  BackwardNeeds backward_needs() const override { return {.inputs = false, .outputs = with_relu_}; }
  std::shared_ptr<const OpDefinition> with_activation(ActivationKind activation) const {
    return !with_relu_ && activation == ActivationKind::relu ? std::make_shared<AddDefinition>(true) : nullptr;
  }
  std::shared_ptr<const OpDefinition> sharing_gradients() const {
    return std::make_shared<AddDefinition>(with_relu_, true);
  }
  std::optional<int> gradient_shares_output(int input) const override {
    return input == 0 || shares_gradients_ ? std::optional(0) : std::nullopt;
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    const Tensor &a = tensors.inputs.at(0), &b = tensors.inputs.at(1), &y = tensors.outputs.at(0);
    const ElementwiseFunction sum = with_relu_ ? ElementwiseFunction(SumWithRelu{}) : Sum{};
    ElementwiseMaps maps{.forward = {{sum, a, b, y}}, .backward = {}};
    const bool wants_da = wants_input_gradient(tensors, 0), wants_db = wants_input_gradient(tensors, 1);
    if (!wants_da && !wants_db) return make_elementwise_op(context, maps);
    const Tensor& dy = tensors.output_gradients.at(0);  // da uses dy's memory; with shared gradients, db also uses it
    if (with_relu_) maps.backward.push_back({GradientOf<Relu>{}, y, dy, dy});
    if (wants_db && !shares_gradients_) {
      maps.backward.push_back({ValueOf<Identity>{}, dy, {}, tensors.input_gradients.at(1)});
    }
    return make_elementwise_op(context, maps);
  }

 private:
  bool with_relu_, shares_gradients_;
};

}  // namespace

std::unique_ptr<Op> make_elementwise_op(const OpContext& context, const ElementwiseMaps& maps) {
  return on_device(
      context,
      [&] {
        return std::make_unique<ElementwiseOp>(maps,
                                               [](std::span<const ElementwiseMap> all, Stream&) { map_cpu(all); });
      },
      [&] {
        return std::make_unique<ElementwiseOp>(maps, [](std::span<const ElementwiseMap> all, Stream& stream) {
          for (const ElementwiseMap& map : all) map_cuda(map, stream);
        });
      });
}

const OpType relu_op = op_type<relu>(Relu::type);
const OpType gelu_op = op_type<gelu>(Gelu::type);
const OpType silu_op = op_type<silu>(Silu::type);
const OpType scale_op{
    .name = Scale::type,
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(scale(graph, name, inputs[0], params_of<ScaleParams>(attributes).factor));
    }};
const OpType sigmoid_op = op_type<sigmoid>(Sigmoid::type);
const OpType hard_sigmoid_op = op_type<HardSigmoidParams, hard_sigmoid>(HardSigmoid::type);
const OpType hard_swish_op = op_type<hard_swish>(HardSwish::type);
const OpType clip_op = op_type<ClipParams, clip>(Clip::type);
const OpType leaky_relu_op = op_type<LeakyReluParams, leaky_relu>(LeakyRelu::type);
const OpType tanh_op = op_type<tanh>(Tanh::type);
const OpType exp_op = op_type<exp>(Exp::type);
const OpType sqrt_op = op_type<sqrt>(Sqrt::type);
const OpType reciprocal_op = op_type<reciprocal>(Reciprocal::type);
const OpType erf_op = op_type<erf>(Erf::type);
const OpType shift_op{
    .name = Shift::type,
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(shift(graph, name, inputs[0], params_of<ShiftParams>(attributes).amount));
    }};
const OpType add_op = op_type<add>("add");

Value relu(Graph& graph, const std::string& name, Value x) { return add_unary(graph, name, x, relu_op, Relu{}); }
Value gelu(Graph& graph, const std::string& name, Value x) { return add_unary(graph, name, x, gelu_op, Gelu{}); }
Value silu(Graph& graph, const std::string& name, Value x) { return add_unary(graph, name, x, silu_op, Silu{}); }
Value scale(Graph& graph, const std::string& name, Value x, float factor) {
  return add_unary(graph, name, x, scale_op, Scale{factor}, attributes_of(ScaleParams{factor}));
}
Value sigmoid(Graph& graph, const std::string& name, Value x) {
  return add_unary(graph, name, x, sigmoid_op, Sigmoid{});
}
Value hard_sigmoid(Graph& graph, const std::string& name, Value x, const HardSigmoidParams& params) {
  return add_unary(graph, name, x, hard_sigmoid_op, HardSigmoid{params.alpha, params.beta}, attributes_of(params));
}
Value hard_swish(Graph& graph, const std::string& name, Value x) {
  return add_unary(graph, name, x, hard_swish_op, HardSwish{});
}
Value clip(Graph& graph, const std::string& name, Value x, const ClipParams& params) {
  if (!(params.least <= params.most)) {
    fail(ExitCode::failed, "clip {}: the limits {} and {} are in the wrong order", name, params.least, params.most);
  }
  return add_unary(graph, name, x, clip_op, Clip{params.least, params.most}, attributes_of(params));
}
Value leaky_relu(Graph& graph, const std::string& name, Value x, const LeakyReluParams& params) {
  if (!(params.slope >= 0.0f)) fail(ExitCode::failed, "leaky_relu {}: the slope {} is negative", name, params.slope);
  return add_unary(graph, name, x, leaky_relu_op, LeakyRelu{params.slope}, attributes_of(params));
}
Value tanh(Graph& graph, const std::string& name, Value x) { return add_unary(graph, name, x, tanh_op, Tanh{}); }
Value exp(Graph& graph, const std::string& name, Value x) { return add_unary(graph, name, x, exp_op, Exp{}); }
Value sqrt(Graph& graph, const std::string& name, Value x) { return add_unary(graph, name, x, sqrt_op, Sqrt{}); }
Value reciprocal(Graph& graph, const std::string& name, Value x) {
  return add_unary(graph, name, x, reciprocal_op, Reciprocal{});
}
Value erf(Graph& graph, const std::string& name, Value x) { return add_unary(graph, name, x, erf_op, Erf{}); }
Value shift(Graph& graph, const std::string& name, Value x, float amount) {
  return add_unary(graph, name, x, shift_op, Shift{amount}, attributes_of(ShiftParams{amount}));
}

Value add(Graph& graph, const std::string& name, Value a, Value b) {
  const Shape shape = graph.shape(a);
  if (shape != graph.shape(b)) return add_broadcast(graph, name, a, b, add_op);
  return graph.add_op({.name = name,
                       .definition = std::make_shared<AddDefinition>(),
                       .inputs = {a, b},
                       .traits = {.is_addition = true,
                                  .with_activation = trait<&AddDefinition::with_activation>,
                                  .sharing_gradients = trait<&AddDefinition::sharing_gradients>},
                       .type = &add_op},
                      shape);
}

}  // namespace carillon
