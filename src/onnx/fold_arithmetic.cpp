// Folds nodes that compute values: arithmetic, comparisons, functions of an element, and sums.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "src/onnx/constant_folding.h"

namespace carillon {
namespace {

using Integer = std::int64_t;

Integer sum(const Folded& f, Integer a, Integer b) {
  if (__builtin_add_overflow(a, b, &a)) f.refuse("computes an integer that is too large");
  return a;
}
Integer difference(const Folded& f, Integer a, Integer b) {
  if (__builtin_sub_overflow(a, b, &a)) f.refuse("computes an integer that is too large");
  return a;
}
Integer quotient(const Folded& f, Integer a, Integer b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<Integer>::min())) f.refuse("divides by 0");
  return a / b;
}
Integer remainder(const Folded& f, Integer a, Integer b) {
  if (b == 0 || b == -1) {
    if (b == 0) f.refuse("divides by 0");
    return 0;
  }
  const Integer rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::vector<float> floats_of(const OnnxArray& array) {
  if (array.has_floats) return array.floats;
  std::vector<float> values;
  for (const std::int64_t value : array.integers) values.push_back(static_cast<float>(value));
  return values;
}

template <typename OfFloats, typename OfIntegers>
OnnxArray binary(const Folded& f, const OfFloats& of_floats, const OfIntegers& of_integers) {
  const Extents shape = broadcast_shape_of(f, f.input(0).shape, f.input(1).shape);
  const OnnxArray a = expanded(f, f.input(0), shape), b = expanded(f, f.input(1), shape);
  OnnxArray result{
      .shape = shape, .has_floats = a.has_floats || b.has_floats, .floats = {}, .integers = {}, .name = {}};
  if (result.has_floats) {
    const std::vector<float> first = floats_of(a), second = floats_of(b);
    for (std::size_t i = 0; i < first.size(); ++i) result.floats.push_back(of_floats(first[i], second[i]));
  } else {
    for (std::size_t i = 0; i < a.integers.size(); ++i) {
      result.integers.push_back(of_integers(f, a.integers[i], b.integers[i]));
    }
  }
  // The result keeps the name of the array: messages call `2 * weights` by the name of `weights`.
  result.name = f.input(0).name.empty() ? f.input(1).name : f.input(0).name;
  return result;
}

OnnxArray fold_add(const Folded& f) { return binary(f, std::plus<float>(), sum); }
OnnxArray fold_sub(const Folded& f) { return binary(f, std::minus<float>(), difference); }
OnnxArray fold_mul(const Folded& f) { return binary(f, std::multiplies<float>(), product); }
OnnxArray fold_div(const Folded& f) { return binary(f, std::divides<float>(), quotient); }
OnnxArray fold_mod(const Folded& f) {
  return binary(
      f, [](float a, float b) { return std::fmod(a, b); }, remainder);
}
OnnxArray fold_pow(const Folded& f) {
  return binary(
      f, [](float a, float b) { return std::pow(a, b); },
      [](const Folded& of, Integer a, Integer b) {
        const double power = std::pow(static_cast<double>(a), static_cast<double>(b));
        if (!(std::abs(power) < 9e18)) of.refuse("computes an integer that is too large");
        return static_cast<Integer>(power);
      });
}

/// Returns the results of a comparison as the integers 0 and 1.
template <typename Compare>
OnnxArray compared(const Folded& f, const Compare& compare) {
  const Extents shape = broadcast_shape_of(f, f.input(0).shape, f.input(1).shape);
  const OnnxArray a = expanded(f, f.input(0), shape), b = expanded(f, f.input(1), shape);
  Extents values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(f.count(shape)); ++i) {
    const double first = a.has_floats ? static_cast<double>(a.floats[i]) : static_cast<double>(a.integers[i]);
    const double second = b.has_floats ? static_cast<double>(b.floats[i]) : static_cast<double>(b.integers[i]);
    values.push_back(compare(first, second) ? 1 : 0);
  }
  return integer_array(shape, std::move(values));
}
OnnxArray fold_equal(const Folded& f) { return compared(f, std::equal_to<double>()); }
OnnxArray fold_less(const Folded& f) { return compared(f, std::less<double>()); }
OnnxArray fold_greater(const Folded& f) { return compared(f, std::greater<double>()); }
OnnxArray fold_less_or_equal(const Folded& f) { return compared(f, std::less_equal<double>()); }
OnnxArray fold_greater_or_equal(const Folded& f) { return compared(f, std::greater_equal<double>()); }
OnnxArray fold_and(const Folded& f) {
  return compared(f, [](double a, double b) { return a != 0.0 && b != 0.0; });
}
OnnxArray fold_or(const Folded& f) {
  return compared(f, [](double a, double b) { return a != 0.0 || b != 0.0; });
}
OnnxArray fold_min(const Folded& f) {
  if (f.inputs.size() != 2) f.refuse("of a number of inputs other than 2 is not read");
  return binary(
      f, [](float a, float b) { return std::min(a, b); },
      [](const Folded&, Integer a, Integer b) { return std::min(a, b); });
}
OnnxArray fold_max(const Folded& f) {
  if (f.inputs.size() != 2) f.refuse("of a number of inputs other than 2 is not read");
  return binary(
      f, [](float a, float b) { return std::max(a, b); },
      [](const Folded&, Integer a, Integer b) { return std::max(a, b); });
}

template <typename Function>
OnnxArray unary_floats(const Folded& f, const Function& function) {
  OnnxArray array = f.input(0);
  array.floats = floats_of(array);
  array.integers.clear();
  array.has_floats = true;
  for (float& value : array.floats) value = static_cast<float>(function(static_cast<double>(value)));
  return array;
}
OnnxArray fold_sqrt(const Folded& f) {
  return unary_floats(f, [](double x) { return std::sqrt(x); });
}
OnnxArray fold_exp(const Folded& f) {
  return unary_floats(f, [](double x) { return std::exp(x); });
}
OnnxArray fold_log(const Folded& f) {
  return unary_floats(f, [](double x) { return std::log(x); });
}
OnnxArray fold_sin(const Folded& f) {
  return unary_floats(f, [](double x) { return std::sin(x); });
}
OnnxArray fold_cos(const Folded& f) {
  return unary_floats(f, [](double x) { return std::cos(x); });
}
OnnxArray fold_erf(const Folded& f) {
  return unary_floats(f, [](double x) { return std::erf(x); });
}
OnnxArray fold_floor(const Folded& f) {
  return unary_floats(f, [](double x) { return std::floor(x); });
}
OnnxArray fold_ceil(const Folded& f) {
  return unary_floats(f, [](double x) { return std::ceil(x); });
}
OnnxArray fold_reciprocal(const Folded& f) {
  return unary_floats(f, [](double x) { return 1.0 / x; });
}
OnnxArray fold_sigmoid(const Folded& f) {
  return unary_floats(f, [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
}
OnnxArray fold_softplus(const Folded& f) {
  return unary_floats(f, [](double x) { return std::log1p(std::exp(x)); });
}
OnnxArray fold_tanh(const Folded& f) {
  return unary_floats(f, [](double x) { return std::tanh(x); });
}
OnnxArray fold_neg(const Folded& f) {
  OnnxArray array = f.input(0);
  for (float& value : array.floats) value = -value;
  for (std::int64_t& value : array.integers) value = difference(f, 0, value);
  return array;
}
OnnxArray fold_not(const Folded& f) {
  OnnxArray array = f.input(0);
  for (std::int64_t& value : array.integers) value = value == 0 ? 1 : 0;
  return array;
}

OnnxArray fold_cast(const Folded& f) {
  const std::int64_t to = f.node.integer("to", 0);
  const OnnxArray& array = f.input(0);
  const bool to_floats = to == onnx::Tensor::FLOAT || to == onnx::Tensor::DOUBLE || to == onnx::Tensor::FLOAT16 ||
                         to == onnx::Tensor::BFLOAT16;
  OnnxArray result{.shape = array.shape, .has_floats = to_floats, .floats = {}, .integers = {}, .name = array.name};
  if (to_floats) {
    result.floats = floats_of(array);
  } else if (array.has_floats) {
    for (const float value : array.floats) {
      constexpr float most = 9e18f;
      if (!(std::abs(value) < most)) f.refuse("casts a number that no integer holds");
      result.integers.push_back(to == onnx::Tensor::BOOL ? value != 0.0f : static_cast<std::int64_t>(value));
    }
  } else {
    result.integers = array.integers;
    if (to == onnx::Tensor::BOOL) {
      for (std::int64_t& value : result.integers) value = value != 0 ? 1 : 0;
    }
  }
  return result;
}

OnnxArray fold_where(const Folded& f) {
  Extents shape = broadcast_shape_of(f, f.input(0).shape, f.input(1).shape);
  shape = broadcast_shape_of(f, shape, f.input(2).shape);
  const OnnxArray chosen = expanded(f, f.input(0), shape), yes = expanded(f, f.input(1), shape),
                  no = expanded(f, f.input(2), shape);
  if (yes.has_floats != no.has_floats || chosen.has_floats) f.refuse("has inputs of different types");
  OnnxArray result = yes;
  for (std::size_t i = 0; i < chosen.integers.size(); ++i) {
    if (chosen.integers[i] != 0) continue;
    if (result.has_floats) {
      result.floats[i] = no.floats[i];
    } else {
      result.integers[i] = no.integers[i];
    }
  }
  return result;
}

OnnxArray fold_reduce_prod(const Folded& f) {
  const std::optional<Extents> axes = f.integers(1, "axes");
  const OnnxArray& array = f.input(0);
  if (array.has_floats || array.shape.size() != 1 || (axes && axes->size() != 1))
    f.refuse("of such an input is not read");
  std::int64_t all = 1;
  for (const std::int64_t value : array.integers) all = product(f, all, value);
  const bool keeps = f.node.integer("keepdims", 1) != 0;
  return integer_array(keeps ? Extents{1} : Extents{}, {all});
}

OnnxArray fold_relu(const Folded& f) {
  return unary_floats(f, [](double x) { return std::max(x, 0.0); });
}
OnnxArray fold_abs(const Folded& f) {
  if (!f.input(0).has_floats) f.refuse("of integers is not read");
  return unary_floats(f, [](double x) { return std::abs(x); });
}
OnnxArray fold_sign(const Folded& f) {
  if (!f.input(0).has_floats) f.refuse("of integers is not read");
  return unary_floats(f, [](double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; });
}

OnnxArray fold_clip(const Folded& f) {
  OnnxArray array = f.input(0);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const std::string_view attribute = i == 1 ? "min" : "max";
    if (!f.has(i) && !f.node.has(attribute)) continue;
    if (f.has(i) && (f.input(i).element_count() != 1 || f.input(i).has_floats != array.has_floats)) {
      f.refuse("needs a number of the type of its input");
    }
    const float number = f.has(i) ? floats_of(f.input(i))[0] : f.node.number(attribute, 0.0f);
    const std::int64_t integer = f.has(i) && !f.input(i).has_floats ? f.input(i).integers[0] : 0;
    for (float& value : array.floats) value = i == 1 ? std::max(value, number) : std::min(value, number);
    for (std::int64_t& value : array.integers) value = i == 1 ? std::max(value, integer) : std::min(value, integer);
  }
  return array;
}

/// Reduces some axes: starts with `start`, then calls combine(result so far, element) for each element.
template <typename Combine, typename Finish>
OnnxArray reduced(const Folded& f, float start, const Combine& combine, const Finish& finish) {
  const OnnxArray& array = f.input(0);
  if (!array.has_floats) f.refuse("of integers is not read");
  const std::optional<Extents> axes = f.integers(1, "axes");
  if ((!axes || axes->empty()) && f.node.integer("noop_with_empty_axes", 0) != 0) return array;
  std::vector<bool> reduces(array.shape.size(), !axes || axes->empty());
  if (axes) {
    for (const std::int64_t axis : *axes) reduces[f.axis(axis, array.shape.size())] = true;
  }
  Extents kept = array.shape, shape;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (reduces[i]) count *= std::exchange(kept[i], 1);
    if (!reduces[i] || f.node.integer("keepdims", 1) != 0) shape.push_back(kept[i]);
  }
  const Extents strides = strides_of(kept);
  OnnxArray result{.shape = shape, .has_floats = true, .floats = {}, .integers = {}, .name = {}};
  std::vector<double> sums(static_cast<std::size_t>(f.count(kept)), static_cast<double>(start));
  std::size_t element = 0;
  for_each_index(array.shape, [&](const Extents& index) {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < index.size(); ++i) place += reduces[i] ? 0 : index[i] * strides[i];
    double& own = sums[static_cast<std::size_t>(place)];
    own = combine(own, static_cast<double>(array.floats[element++]));
  });
  for (const double sum_of : sums)
    result.floats.push_back(static_cast<float>(finish(sum_of, static_cast<double>(count))));
  return result;
}
OnnxArray fold_reduce_mean(const Folded& f) {
  return reduced(f, 0.0f, std::plus<double>(), [](double all, double count) { return all / count; });
}
OnnxArray fold_reduce_sum(const Folded& f) {
  return reduced(f, 0.0f, std::plus<double>(), [](double all, double) { return all; });
}
OnnxArray fold_reduce_l2(const Folded& f) {
  return reduced(
      f, 0.0f, [](double all, double x) { return all + x * x; }, [](double all, double) { return std::sqrt(all); });
}
OnnxArray fold_reduce_max(const Folded& f) {
  return reduced(
      f, -std::numeric_limits<float>::infinity(), [](double a, double b) { return std::max(a, b); },
      [](double largest, double) { return largest; });
}

OnnxArray fold_cum_sum(const Folded& f) {
  OnnxArray array = f.input(0);
  if (f.integers_of(1).size() != 1 || f.node.integer("exclusive", 0) != 0 || f.node.integer("reverse", 0) != 0) {
    f.refuse("of this form is not read");
  }
  const std::size_t axis = f.axis(f.integers_of(1)[0], array.shape.size());
  const std::int64_t inner = strides_of(array.shape)[axis];
  for (std::int64_t i = 0; i < array.element_count(); ++i) {
    if (i / inner % array.shape[axis] == 0) continue;
    const auto at = static_cast<std::size_t>(i), before = static_cast<std::size_t>(i - inner);
    if (array.has_floats) {
      array.floats[at] += array.floats[before];
    } else {
      array.integers[at] = sum(f, array.integers[at], array.integers[before]);
    }
  }
  return array;
}

constexpr Folding foldings[] = {{"Abs", fold_abs},
                                {"Add", fold_add},
                                {"And", fold_and},
                                {"Cast", fold_cast},
                                {"Ceil", fold_ceil},
                                {"Clip", fold_clip},
                                {"Cos", fold_cos},
                                {"CumSum", fold_cum_sum},
                                {"Div", fold_div},
                                {"Equal", fold_equal},
                                {"Erf", fold_erf},
                                {"Exp", fold_exp},
                                {"Floor", fold_floor},
                                {"Greater", fold_greater},
                                {"GreaterOrEqual", fold_greater_or_equal},
                                {"Less", fold_less},
                                {"LessOrEqual", fold_less_or_equal},
                                {"Log", fold_log},
                                {"Max", fold_max},
                                {"Min", fold_min},
                                {"Mod", fold_mod},
                                {"Mul", fold_mul},
                                {"Neg", fold_neg},
                                {"Not", fold_not},
                                {"Or", fold_or},
                                {"Pow", fold_pow},
                                {"Reciprocal", fold_reciprocal},
                                {"ReduceL2", fold_reduce_l2},
                                {"ReduceMax", fold_reduce_max},
                                {"ReduceMean", fold_reduce_mean},
                                {"ReduceProd", fold_reduce_prod},
                                {"ReduceSum", fold_reduce_sum},
                                {"Relu", fold_relu},
                                {"Sigmoid", fold_sigmoid},
                                {"Sign", fold_sign},
                                {"Sin", fold_sin},
                                {"Softplus", fold_softplus},
                                {"Sqrt", fold_sqrt},
                                {"Sub", fold_sub},
                                {"Tanh", fold_tanh},
                                {"Where", fold_where}};

}  // namespace

std::span<const Folding> arithmetic_foldings() { return foldings; }

}  // namespace carillon
