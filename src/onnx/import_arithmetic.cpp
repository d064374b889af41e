// Imports ONNX's operators that compute each element alone or combine two values, and softmax.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "kernels/broadcast/broadcast.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/softmax/softmax.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

template <Value (*builder)(Graph&, const std::string&, Value)>
void add_function(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  importer.set_output(node, with_value(x, builder(importer.graph(), importer.op_name(node), x.value)));
}

void add_identity(Importer& importer, const OnnxNode& node) { importer.set_output(node, importer.input(node)); }

void add_cast(Importer& importer, const OnnxNode& node) {
  const std::int64_t to = node.integer("to", 0);
  if (to != onnx::Tensor::FLOAT && to != onnx::Tensor::DOUBLE && to != onnx::Tensor::FLOAT16 &&
      to != onnx::Tensor::BFLOAT16) {
    importer.refuse(node, "turns computed numbers into integers, which is not supported");
  }
  importer.set_output(node, importer.input(node));
}

void add_dropout(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const float rate = importer.number(node, 1, "ratio").value_or(0.5f);
  if (rate == 0.0f) return importer.set_output(node, x);
  const Value y = dropout(importer.graph(), importer.op_name(node), x.value, {.rate = rate});
  importer.set_output(node, with_value(x, y));
}

/// If the only node that reads a sigmoid multiplies the sigmoid by its input, returns this node: the two nodes together
/// are a SiLU.
const OnnxNode* product_with_own_input(Importer& importer, const OnnxNode& node) {
  const OnnxNode* const reader = importer.sole_reader(node.output());
  if (reader == nullptr || reader->type() != "Mul") return nullptr;
  const std::string x = node.input(0);
  return reader->input(0) == x || reader->input(1) == x ? reader : nullptr;
}

void add_sigmoid(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (const OnnxNode* const product = product_with_own_input(importer, node)) {
    importer.skip(*product);
    const Value y = silu(importer.graph(), importer.op_name(*product), x.value);
    return importer.alias(product->output(), with_value(x, y));
  }
  importer.set_output(node, with_value(x, sigmoid(importer.graph(), importer.op_name(node), x.value)));
}

void add_hard_sigmoid(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const HardSigmoidParams params{.alpha = node.number("alpha", 0.2f), .beta = node.number("beta", 0.5f)};
  const bool is_sixth = std::abs(params.alpha - 1.0f / 6.0f) < 1e-5f && params.beta == 0.5f;
  const OnnxNode* const product = is_sixth ? product_with_own_input(importer, node) : nullptr;
  if (product != nullptr) {
    importer.skip(*product);
    const Value y = hard_swish(importer.graph(), importer.op_name(*product), x.value);
    return importer.alias(product->output(), with_value(x, y));
  }
  importer.set_output(node, with_value(x, hard_sigmoid(importer.graph(), importer.op_name(node), x.value, params)));
}

void add_leaky_relu(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const LeakyReluParams params{.slope = node.number("alpha", 0.01f)};
  importer.set_output(node, with_value(x, leaky_relu(importer.graph(), importer.op_name(node), x.value, params)));
}

void add_clip(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  constexpr float most = std::numeric_limits<float>::max();
  const float least = importer.number(node, 1, "min").value_or(-most),
              largest = importer.number(node, 2, "max").value_or(most);
  const std::string name = importer.op_name(node);
  const bool is_relu = least == 0.0f && largest >= most;
  const Value y = is_relu ? relu(importer.graph(), name, x.value)
                          : clip(importer.graph(), name, x.value, {.least = least, .most = largest});
  importer.set_output(node, with_value(x, y));
}

void add_gelu(Importer& importer, const OnnxNode& node) {
  if (node.text("approximate", "none") != "none") importer.refuse(node, "approximates GELU, which is not supported");
  add_function<gelu>(importer, node);
}

void add_softmax(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const std::size_t axis = importer.axis(node, node.integer("axis", importer.operator_set() < 13 ? 1 : -1), x);
  if (importer.operator_set() < 13 && axis + 1 != x.rank())
    importer.refuse(node, "is over several axes, which is not supported");
  const Placed rows = importer.with_last(node, x, static_cast<int>(axis));
  importer.set_output(node, with_value(rows, softmax(importer.graph(), importer.op_name(node), rows.value)));
}

/// Two values with axes that broadcasting ops can match.
struct Operands {
  Value a, b;
  std::vector<int> order;
  Extents shape;
  BatchInFile batch = BatchInFile::separate;
};

Operands operands(Importer& importer, const OnnxNode& node, const Placed& given_a, const Placed& given_b) {
  const Placed a = importer.with_batch(node, given_a, given_b), b = importer.with_batch(node, given_b, given_a);
  if (a.rank() != b.rank()) importer.refuse(node, "has inputs with different numbers of axes, which is not supported");
  if (!a.has_batch_of(b)) importer.refuse(node, "does not keep the batch");
  Operands both{a.value, b.value, {}, a.shape, a.batch};
  for (std::size_t i = 0; i < a.rank(); ++i) {
    if (a.shape[i] != b.shape[i] && a.shape[i] != 1 && b.shape[i] != 1)
      importer.refuse(node, "has inputs of different shapes");
    both.shape[i] = std::max(a.shape[i], b.shape[i]);
  }
  const std::vector<int> order_a = stored_order(a), order_b = stored_order(b);
  const bool a_is_main = order_a.size() >= order_b.size();
  both.order = a_is_main ? order_a : order_b;
  const std::vector<int>& less = a_is_main ? order_b : order_a;
  // Broadcasting matches the axes after the batch, starting with the last axis.
  const auto tail = static_cast<std::ptrdiff_t>(less.size()) - 1;
  if (tail > 0 && std::equal(less.begin() + 1, less.end(), both.order.end() - tail)) return both;
  const bool main_has_all =
      std::ranges::all_of(less, [&](int axis) { return std::ranges::find(both.order, axis) != both.order.end(); });
  if (!main_has_all) {  // each input is repeated along an axis of the other one
    both.order = natural_order(a);
    both.a = importer.arranged(node, a, both.order);
    both.b = importer.arranged(node, b, both.order);
    return both;
  }
  Value& other = a_is_main ? both.b : both.a;
  other = importer.arranged(node, a_is_main ? b : a, both.order);
  return both;
}

template <Value (*builder)(Graph&, const std::string&, Value, Value)>
void combine(Importer& importer, const OnnxNode& node, const Placed& a, const Placed& b) {
  const Operands both = operands(importer, node, a, b);
  const Value y = builder(importer.graph(), importer.op_name(node), both.a, both.b);
  importer.set_output(node, Importer::placed(y, both.shape, both.order, both.batch));
}

/// Returns the value of a float constant that has one element. Returns nullopt for other constants, and for arrays of
/// the file, because arrays of the file are trained.
std::optional<float> single(const OnnxConstant& constant) {
  const bool is_number = constant != nullptr && constant->has_floats && constant->floats.size() == 1;
  if (!is_number || !constant->name.empty()) return std::nullopt;
  return constant->floats[0];
}

/// If exactly one axis of the constant does not have the extent 1, returns the axis of `x` that matches it. Otherwise,
/// or if the extents differ, returns nullopt.
std::optional<int> axis_of(const Placed& x, const OnnxArray& constant) {
  const std::size_t rank = constant.shape.size();
  std::optional<int> axis;
  for (std::size_t i = 0; i < rank; ++i) {
    if (constant.shape[i] == 1) continue;
    if (axis || rank > x.file_rank()) return std::nullopt;
    axis = static_cast<int>(x.rank() - rank + i);
    if (x.shape[static_cast<std::size_t>(*axis)] != constant.shape[i]) return std::nullopt;
  }
  return axis;
}

/// True if there is an axis on which the array has several elements and `x` has one element.
bool extends(const OnnxArray& values, const Placed& x) {
  const std::size_t rank = values.shape.size();
  if (rank > x.file_rank()) return true;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t own = x.rank() - rank + i;
    if (values.shape[i] != 1 && !x.is_batch(own) && x.axes[own] < 0) return true;
  }
  return false;
}

/// Adds a sum or product of `x` and a constant array.
template <Value (*builder)(Graph&, const std::string&, Value, Value)>
void combine_with(Importer& importer, const OnnxNode& node, const Placed& x, const OnnxArray& values) {
  if (extends(values, x) || !x.is_batch(0))
    return combine<builder>(importer, node, x, importer.parameter(node, values));
  Placed other = importer.variable(node, values, x.rank(), stored_order(x));
  other.batch = x.batch;
  combine<builder>(importer, node, x, other);
}

/// Returns the array with `function` applied to each value.
template <typename Function>
OnnxArray changed(OnnxArray array, const Function& function) {
  for (float& value : array.floats) value = function(value);
  array.is_derived = true;
  return array;
}

void add_mul(Importer& importer, const OnnxNode& node) {
  if (importer.is_placed(node, 0) && importer.is_placed(node, 1)) {
    return combine<multiply>(importer, node, importer.input(node, 0), importer.input(node, 1));
  }
  const int constant_input = importer.is_placed(node, 0) ? 1 : 0;
  const OnnxConstant factor = importer.floats(node, constant_input);
  const Placed& x = importer.input(node, 1 - constant_input);
  if (const std::optional<float> number = single(factor)) {
    return importer.set_output(node, with_value(x, scale(importer.graph(), importer.op_name(node), x.value, *number)));
  }
  const std::optional<int> axis = axis_of(x, *factor);
  if (!axis || stored_order(x).back() != *axis || factor->name.empty())
    return combine_with<multiply>(importer, node, x, *factor);
  const std::string name = importer.layer_name(node, *factor);
  importer.give(name + "/gamma", *factor);
  const Value y = scale_channels(importer.graph(), name, x.value);
  importer.set_output(node, with_value(x, y));
}

void add_add(Importer& importer, const OnnxNode& node) {
  if (importer.is_placed(node, 0) && importer.is_placed(node, 1)) {
    return combine<add>(importer, node, importer.input(node, 0), importer.input(node, 1));
  }
  const int constant_input = importer.is_placed(node, 0) ? 1 : 0;
  const OnnxConstant term = importer.floats(node, constant_input);
  const Placed& x = importer.input(node, 1 - constant_input);
  const std::optional<float> number = single(term);
  if (!number) return combine_with<add>(importer, node, x, *term);
  importer.set_output(node, with_value(x, shift(importer.graph(), importer.op_name(node), x.value, *number)));
}

void add_sub(Importer& importer, const OnnxNode& node) {
  Graph& graph = importer.graph();
  if (importer.is_placed(node, 0) && !importer.is_placed(node, 1)) {
    const Placed& x = importer.input(node, 0);
    const OnnxConstant term = importer.floats(node, 1);
    const std::optional<float> number = single(term);
    if (!number) return combine_with<add>(importer, node, x, changed(*term, std::negate<float>()));
    return importer.set_output(node, with_value(x, shift(graph, importer.op_name(node), x.value, -*number)));
  }
  const Placed& b = importer.input(node, 1);
  const Placed negative = with_value(b, scale(graph, importer.op_name(node, "/negative"), b.value, -1.0f));
  if (importer.is_placed(node, 0)) return combine<add>(importer, node, importer.input(node, 0), negative);
  const OnnxConstant term = importer.floats(node, 0);
  const std::optional<float> number = single(term);
  if (!number) return combine_with<add>(importer, node, negative, *term);
  importer.set_output(node, with_value(b, shift(graph, importer.op_name(node), negative.value, *number)));
}

/// Returns the only node that reads the output of `node`. Returns null if none or several nodes read it, or if the
/// reader is not of this type.
const OnnxNode* next_in_chain(Importer& importer, const OnnxNode& node, std::string_view type) {
  const OnnxNode* const next = importer.sole_reader(node.output());
  return next != nullptr && next->type() == type ? next : nullptr;
}

/// Adds a GELU if `node` begins the chain x / sqrt(2) -> erf -> + 1 -> * x -> * 0.5. Otherwise returns false.
bool add_written_out_gelu(Importer& importer, const OnnxNode& node) {
  const OnnxNode* const erf = next_in_chain(importer, node, "Erf");
  const OnnxNode* const sum = erf == nullptr ? nullptr : next_in_chain(importer, *erf, "Add");
  const OnnxNode* const product = sum == nullptr ? nullptr : next_in_chain(importer, *sum, "Mul");
  if (product == nullptr) return false;
  const auto other_number = [&](const OnnxNode& of, const OnnxNode& before) {
    return single(importer.constant_or_node(of, of.input(0) == before.output() ? 1 : 0));
  };
  if (other_number(*sum, *erf) != 1.0f) return false;
  const OnnxNode* const half = next_in_chain(importer, *product, "Mul");
  const std::string& other = product->input(product->input(0) == sum->output() ? 1 : 0);
  if (half == nullptr || other != node.input(0) || other_number(*half, *product) != 0.5f) return false;
  for (const OnnxNode* const part : {erf, sum, product, half}) importer.skip(*part);
  const Placed& x = importer.input(node);
  const Value y = gelu(importer.graph(), importer.op_name(*half), x.value);
  importer.alias(half->output(), with_value(x, y));
  return true;
}

void add_div(Importer& importer, const OnnxNode& node) {
  Graph& graph = importer.graph();
  if (importer.is_placed(node, 0) && !importer.is_placed(node, 1)) {
    const Placed& x = importer.input(node, 0);
    const OnnxConstant divisor = importer.floats(node, 1);
    const std::optional<float> number = single(divisor);
    if (!number)
      return combine_with<multiply>(importer, node, x, changed(*divisor, [](float value) { return 1.0f / value; }));
    if (std::abs(*number - std::numbers::sqrt2_v<float>) < 1e-5f && add_written_out_gelu(importer, node)) return;
    return importer.set_output(node, with_value(x, scale(graph, importer.op_name(node), x.value, 1.0f / *number)));
  }
  const Placed& b = importer.input(node, 1);
  const Placed inverse = with_value(b, reciprocal(graph, importer.op_name(node, "/reciprocal"), b.value));
  if (importer.is_placed(node, 0)) return combine<multiply>(importer, node, importer.input(node, 0), inverse);
  const OnnxConstant dividend = importer.floats(node, 0);
  const std::optional<float> number = single(dividend);
  if (!number) return combine_with<multiply>(importer, node, inverse, *dividend);
  importer.set_output(node, with_value(b, scale(graph, importer.op_name(node), inverse.value, *number)));
}

void add_neg(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  importer.set_output(node, with_value(x, scale(importer.graph(), importer.op_name(node), x.value, -1.0f)));
}

void add_pow(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  Graph& graph = importer.graph();
  const std::optional<float> exponent = single(importer.constant(node, 1));
  if (exponent == 2.0f)
    return importer.set_output(node, with_value(x, multiply(graph, importer.op_name(node), x.value, x.value)));
  if (exponent == 0.5f) return importer.set_output(node, with_value(x, sqrt(graph, importer.op_name(node), x.value)));
  importer.refuse(node, "has another exponent than 2 or 0.5, which is not supported");
}

constexpr Operator operators[] = {{"Add", add_add, true},
                                  {"Cast", add_cast, true},
                                  {"CastLike", add_identity, true},
                                  {"Clip", add_clip, true},
                                  {"Div", add_div, true},
                                  {"Dropout", add_dropout},
                                  {"Erf", add_function<erf>, true},
                                  {"Exp", add_function<exp>, true},
                                  {"Gelu", add_gelu, true},
                                  {"HardSigmoid", add_hard_sigmoid, true},
                                  {"HardSwish", add_function<hard_swish>, true},
                                  {"Identity", add_identity, true},
                                  {"LeakyRelu", add_leaky_relu, true},
                                  {"Mul", add_mul, true},
                                  {"Neg", add_neg, true},
                                  {"Pow", add_pow, true},
                                  {"Reciprocal", add_function<reciprocal>, true},
                                  {"Relu", add_function<relu>, true},
                                  {"Sigmoid", add_sigmoid, true},
                                  {"Softmax", add_softmax, true},
                                  {"Sqrt", add_function<sqrt>, true},
                                  {"Sub", add_sub, true},
                                  {"Tanh", add_function<tanh>, true}};

}  // namespace

std::span<const Operator> arithmetic_operators() { return operators; }

}  // namespace carillon
