#include "src/onnx/constant_folding.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "carillon/core/error.h"
#include "src/core/text.h"

namespace carillon {
namespace {

using Extents = std::vector<std::int64_t>;

/// A node computes at most this many elements, or four times the elements of its inputs.
constexpr std::int64_t max_folded = std::int64_t{1} << 22;
constexpr std::size_t max_axes = 12;

/// What a function that folds gets.
struct Folded {
  const OnnxNode& node;
  std::span<const OnnxConstant> inputs;
  std::int64_t operator_set;
  const OnnxFile& file;

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ExitCode::data, "{}: the node '{}' ({}) {}", file.path().string(), printable(node.name()), node.type(), what);
  }
  bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const OnnxArray& input(std::size_t i) const {
    if (!has(i)) refuse("lacks an input");
    return *inputs[i];
  }
  /// Input `i` as integers; `attribute`: in earlier operator sets. Nullopt: neither is there.
  std::optional<Extents> integers(std::size_t i, std::string_view attribute) const {
    if (has(i)) return integers_of(i);
    return node.has(attribute) ? std::optional(node.integers(attribute)) : std::nullopt;
  }
  const Extents& integers_of(std::size_t i) const {
    if (input(i).has_floats) refuse("needs integers");
    return input(i).integers;
  }
  /// The only integer of input `i`.
  std::int64_t integer(std::size_t i) const {
    if (integers_of(i).size() != 1) refuse("needs one number");
    return integers_of(i)[0];
  }
  /// The axis from 0 to rank - 1.
  std::size_t axis(std::int64_t axis, std::size_t rank) const {
    const auto count = static_cast<std::int64_t>(rank);
    if (axis < -count || axis >= count) refuse("has an axis that its input lacks");
    return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
  }
  std::int64_t count(const Extents& shape) const {
    std::int64_t product = 1, limit = max_folded;
    for (const OnnxConstant& one : inputs) limit = std::max(limit, one ? 4 * one->element_count() : 0);
    for (const std::int64_t extent : shape) {
      // An extent of 0 counts as 1, so that the other extents are limited, too.
      if (extent < 0 || __builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product) ||
          product > limit || shape.size() > max_axes) {
        refuse("computes a constant that is too large, or has a negative extent");
      }
    }
    return std::ranges::find(shape, 0) == shape.end() ? product : 0;
  }
};

OnnxArray integer_array(Extents shape, Extents values) {
  return {.shape = std::move(shape), .has_floats = false, .floats = {}, .integers = std::move(values), .name = {}};
}

/// `values` along one axis.
OnnxArray integer_list(Extents values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return integer_array({count}, std::move(values));
}

/// An array of `like`'s type whose element i is element places[i] of `like`.
OnnxArray gathered(const OnnxArray& like, Extents shape, const std::vector<std::int64_t>& places) {
  OnnxArray array{
      .shape = std::move(shape), .has_floats = like.has_floats, .floats = {}, .integers = {}, .name = like.name};
  for (const std::int64_t place : places) {
    const auto i = static_cast<std::size_t>(place);
    if (like.has_floats) {
      array.floats.push_back(like.floats[i]);
    } else {
      array.integers.push_back(like.integers[i]);
    }
  }
  return array;
}

/// Row-major strides.
Extents strides_of(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Calls visit(indices) for each element of the shape in row-major order.
template <typename Visit>
void for_each_index(const Extents& shape, const Visit& visit) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  Extents index(shape.size(), 0);
  while (true) {
    visit(index);
    std::size_t axis = shape.size();
    while (axis-- > 0) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (shape.empty()) return;
  }
}

OnnxArray with_shape(const OnnxArray& array, Extents shape) {
  OnnxArray same = array;
  same.shape = std::move(shape);
  return same;
}

// Arithmetic

Extents broadcast_shape_of(const Folded& f, const Extents& a, const Extents& b) {
  Extents shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1, from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) f.refuse("has inputs of different shapes");
    shape[shape.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return shape;
}

/// The array repeated to a shape that it broadcasts to.
OnnxArray expanded(const Folded& f, const OnnxArray& array, const Extents& shape) {
  if (array.shape == shape) return array;
  f.count(shape);
  const std::size_t missing = shape.size() - array.shape.size();
  const Extents strides = strides_of(array.shape);
  std::vector<std::int64_t> places;
  for_each_index(shape, [&](const Extents& index) {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < array.shape.size(); ++i) {
      if (array.shape[i] != 1) place += index[missing + i] * strides[i];
    }
    places.push_back(place);
  });
  return gathered(array, shape, places);
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
  // A product or sum with numbers keeps the name: `2 * weights` are still those weights for messages.
  result.name = f.input(0).name.empty() ? f.input(1).name : f.input(0).name;
  return result;
}

using Integer = std::int64_t;

Integer sum(const Folded& f, Integer a, Integer b) {
  if (__builtin_add_overflow(a, b, &a)) f.refuse("computes an integer that is too large");
  return a;
}
Integer difference(const Folded& f, Integer a, Integer b) {
  if (__builtin_sub_overflow(a, b, &a)) f.refuse("computes an integer that is too large");
  return a;
}
Integer product(const Folded& f, Integer a, Integer b) {
  if (__builtin_mul_overflow(a, b, &a)) f.refuse("computes an integer that is too large");
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

/// Comparisons give integers.
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

// Shapes and parts

OnnxArray fold_constant(const Folded& f) {
  if (const onnx::Tensor* const tensor = f.node.tensor("value")) {
    OnnxArray array = *f.file.read(*tensor, f.node.output());
    array.name.clear();  // it is no initializer
    return array;
  }
  const auto floats = [](Extents shape, std::vector<float> values) {
    return OnnxArray{
        .shape = std::move(shape), .has_floats = true, .floats = std::move(values), .integers = {}, .name = {}};
  };
  if (f.node.has("value_int")) return integer_array({}, {f.node.integer("value_int", 0)});
  if (f.node.has("value_float")) return floats({}, {f.node.number("value_float", 0.0f)});
  if (f.node.has("value_ints")) return integer_list(f.node.integers("value_ints"));
  if (f.node.has("value_floats")) {
    std::vector<float> values = f.node.numbers("value_floats");
    const auto count = static_cast<std::int64_t>(values.size());
    return floats({count}, std::move(values));
  }
  f.refuse("has no numbers");
}

/// An exporter stores equal arrays once, and gives the others as copies with their own names.
OnnxArray fold_identity(const Folded& f) {
  OnnxArray array = f.input(0);
  if (!array.name.empty()) array.name = f.node.output();
  return array;
}

OnnxArray fold_cast_like(const Folded& f) {
  if (f.input(0).has_floats != f.input(1).has_floats) f.refuse("changes the type of its input, which is not supported");
  return f.input(0);
}

OnnxArray fold_shape(const Folded& f) {
  const Extents& shape = f.input(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto limited = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t first = limited(f.node.integer("start", 0)), last = limited(f.node.integer("end", rank));
  return integer_list(Extents(shape.begin() + first, shape.begin() + std::max(first, last)));
}

OnnxArray fold_size(const Folded& f) { return integer_array({}, {f.count(f.input(0).shape)}); }

OnnxArray fold_constant_of_shape(const Folded& f) {
  const Extents shape = f.integers_of(0);
  const auto count = static_cast<std::size_t>(f.count(shape));
  const onnx::Tensor* const tensor = f.node.tensor("value");
  if (tensor == nullptr) {
    return {.shape = shape, .has_floats = true, .floats = std::vector<float>(count), .integers = {}, .name = {}};
  }
  const OnnxConstant value = f.file.read(*tensor, f.node.output());
  if (value->element_count() != 1) f.refuse("has no single value");
  return gathered(*value, shape, std::vector<std::int64_t>(count, 0));
}

OnnxArray fold_reshape(const Folded& f) {
  const OnnxArray& array = f.input(0);
  Extents shape = f.integers(1, "shape").value_or(Extents{});
  std::int64_t known = 1, unknown = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && f.node.integer("allowzero", 0) == 0 && i < array.shape.size()) shape[i] = array.shape[i];
    if (shape[i] == -1) {
      unknown = static_cast<std::int64_t>(i);
    } else {
      known = product(f, known, shape[i]);
    }
  }
  if (unknown >= 0) shape[static_cast<std::size_t>(unknown)] = known > 0 ? array.element_count() / known : 0;
  if (f.count(shape) != array.element_count()) f.refuse("has another number of elements than its input");
  return with_shape(array, shape);
}

OnnxArray fold_flatten(const Folded& f) {
  const OnnxArray& array = f.input(0);
  const std::int64_t rank = static_cast<std::int64_t>(array.shape.size()), given = f.node.integer("axis", 1),
                     axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) f.refuse("has an axis that its input lacks");
  const std::int64_t rows =
      std::accumulate(array.shape.begin(), array.shape.begin() + axis, std::int64_t{1}, std::multiplies<>());
  return with_shape(array, {rows, rows > 0 ? array.element_count() / rows : 0});
}

OnnxArray fold_unsqueeze(const Folded& f) {
  const Extents axes = f.integers(1, "axes").value_or(Extents{});
  Extents shape = f.input(0).shape;
  std::vector<std::size_t> places;
  for (const std::int64_t axis : axes) places.push_back(f.axis(axis, shape.size() + axes.size()));
  std::ranges::sort(places);
  for (const std::size_t place : places) {
    if (place > shape.size()) f.refuse("has an axis that its input lacks");
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
  }
  return with_shape(f.input(0), shape);
}

OnnxArray fold_squeeze(const Folded& f) {
  const Extents& from = f.input(0).shape;
  const std::optional<Extents> axes = f.integers(1, "axes");
  std::vector<bool> removes(from.size(), !axes);
  if (axes) {
    for (const std::int64_t axis : *axes) removes[f.axis(axis, from.size())] = true;
  }
  Extents shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!removes[i] || from[i] != 1) shape.push_back(from[i]);
  }
  return with_shape(f.input(0), shape);
}

OnnxArray fold_transpose(const Folded& f) {
  const OnnxArray& array = f.input(0);
  Extents order = f.node.integers("perm");
  if (order.empty()) {
    for (std::size_t i = array.shape.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  }
  if (order.size() != array.shape.size()) f.refuse("has another number of axes than its input");
  const Extents strides = strides_of(array.shape);
  Extents shape, steps;
  std::vector<bool> is_named(order.size(), false);
  for (const std::int64_t from : order) {
    const std::size_t axis = f.axis(from, array.shape.size());
    if (is_named[axis]) f.refuse("names an axis twice");
    is_named[axis] = true;
    shape.push_back(array.shape[axis]);
    steps.push_back(strides[axis]);
  }
  std::vector<std::int64_t> places;
  for_each_index(shape, [&](const Extents& index) {
    places.push_back(std::inner_product(index.begin(), index.end(), steps.begin(), std::int64_t{0}));
  });
  return gathered(array, shape, places);
}

OnnxArray fold_expand(const Folded& f) {
  return expanded(f, f.input(0), broadcast_shape_of(f, f.input(0).shape, f.integers_of(1)));
}

OnnxArray fold_tile(const Folded& f) {
  const OnnxArray& array = f.input(0);
  const Extents& repeats = f.integers_of(1);
  if (repeats.size() != array.shape.size()) f.refuse("has another number of axes than its input");
  Extents shape;
  for (std::size_t i = 0; i < repeats.size(); ++i) shape.push_back(product(f, array.shape[i], repeats[i]));
  f.count(shape);
  const Extents strides = strides_of(array.shape);
  std::vector<std::int64_t> places;
  for_each_index(shape, [&](const Extents& index) {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < index.size(); ++i) place += index[i] % array.shape[i] * strides[i];
    places.push_back(place);
  });
  return gathered(array, shape, places);
}

OnnxArray fold_concat(const Folded& f) {
  const std::size_t axis = f.axis(f.node.integer("axis", 0), f.input(0).shape.size());
  OnnxArray result = f.input(0);
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < f.inputs.size(); ++i) {
    const OnnxArray& one = f.input(i);
    if (one.shape.size() != result.shape.size() || one.has_floats != result.has_floats) {
      f.refuse("has inputs of different shapes or types");
    }
    for (std::size_t k = 0; k < one.shape.size(); ++k) {
      if (k != axis && one.shape[k] != result.shape[k]) f.refuse("has inputs of different shapes");
    }
    extent += one.shape[axis];
  }
  Extents shape = result.shape;
  shape[axis] = extent;
  f.count(shape);
  result.floats.clear();
  result.integers.clear();
  const std::int64_t rows = std::accumulate(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis),
                                            std::int64_t{1}, std::multiplies<>());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < f.inputs.size(); ++i) {
      const OnnxArray& one = f.input(i);
      const std::int64_t size = one.element_count() / rows;
      const auto append = [&](auto& to, const auto& from) {
        to.insert(to.end(), from.begin() + row * size, from.begin() + (row + 1) * size);
      };
      if (result.has_floats) {
        append(result.floats, one.floats);
      } else {
        append(result.integers, one.integers);
      }
    }
  }
  result.shape = shape;
  return result;
}

OnnxArray fold_gather(const Folded& f) {
  const OnnxArray& array = f.input(0);
  const std::size_t axis = f.axis(f.node.integer("axis", 0), array.shape.size());
  const OnnxArray& indices = f.input(1);
  if (indices.has_floats) f.refuse("needs integers");
  Extents shape(array.shape.begin(), array.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), array.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, array.shape.end());
  f.count(shape);
  const std::int64_t extent = array.shape[axis], inner = strides_of(array.shape)[axis];
  if (extent == 0 && !indices.integers.empty()) f.refuse("reads an element that its input lacks");
  const std::int64_t outer = extent * inner > 0 ? array.element_count() / (extent * inner) : 0;
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < outer; ++row) {
    for (const std::int64_t given : indices.integers) {
      const std::int64_t index = given < 0 ? given + extent : given;
      if (index < 0 || index >= extent) f.refuse("reads an element that its input lacks");
      for (std::int64_t i = 0; i < inner; ++i) places.push_back((row * extent + index) * inner + i);
    }
  }
  return gathered(array, shape, places);
}

OnnxArray fold_slice(const Folded& f) {
  const OnnxArray& array = f.input(0);
  const Extents first = f.integers(1, "starts").value_or(Extents{}), last = f.integers(2, "ends").value_or(Extents{});
  Extents axes = f.integers(3, "axes").value_or(Extents{});
  if (axes.empty()) {
    for (std::size_t i = 0; i < first.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  const Extents steps = f.integers(4, "steps").value_or(Extents(axes.size(), 1));
  if (first.size() != axes.size() || last.size() != axes.size() || steps.size() != axes.size()) {
    f.refuse("has lists of different lengths");
  }
  std::vector<int> is_cut(array.shape.size(), 0);
  std::vector<Extents> kept;  // by axis: the indices that stay
  for (const std::int64_t extent : array.shape) {
    kept.emplace_back(static_cast<std::size_t>(extent));
    std::iota(kept.back().begin(), kept.back().end(), 0);
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = f.axis(axes[i], array.shape.size());
    const std::int64_t extent = array.shape[axis], step = std::clamp<std::int64_t>(steps[i], -extent - 1, extent + 1);
    if (steps[i] == 0) f.refuse("has the step 0");
    if (std::exchange(is_cut[axis], 1) != 0) f.refuse("names an axis twice");
    const auto limited = [&](std::int64_t at) {
      const std::int64_t inside = at < 0 ? at + extent : at;
      return step > 0 ? std::clamp<std::int64_t>(inside, 0, extent) : std::clamp<std::int64_t>(inside, -1, extent - 1);
    };
    kept[axis].clear();
    const std::int64_t end = limited(last[i]);
    for (std::int64_t at = limited(first[i]); step > 0 ? at < end : at > end; at += step) kept[axis].push_back(at);
  }
  Extents shape;
  for (const Extents& axis : kept) shape.push_back(static_cast<std::int64_t>(axis.size()));
  const Extents strides = strides_of(array.shape);
  std::vector<std::int64_t> places;
  for_each_index(shape, [&](const Extents& index) {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < index.size(); ++i) place += kept[i][static_cast<std::size_t>(index[i])] * strides[i];
    places.push_back(place);
  });
  return gathered(array, shape, places);
}

OnnxArray fold_range(const Folded& f) {
  if (f.input(0).has_floats) f.refuse("of floating-point numbers is not read");
  const std::int64_t first = f.integer(0), last = f.integer(1), step = f.integer(2);
  if (step == 0) f.refuse("has the step 0");
  Extents values;
  for (std::int64_t at = first; step > 0 ? at < last : at > last;) {
    values.push_back(at);
    if (static_cast<std::int64_t>(values.size()) > max_folded) f.refuse("computes a constant that is too large");
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return integer_list(std::move(values));
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

/// [..., m, k] by [k, n].
OnnxArray fold_mat_mul(const Folded& f) {
  const OnnxArray &a = f.input(0), &b = f.input(1);
  if (!a.has_floats || !b.has_floats || a.shape.size() < 2 || b.shape.size() != 2 || a.shape.back() != b.shape[0]) {
    f.refuse("of constants of these shapes is not read");
  }
  const std::int64_t inner = b.shape[0], columns = b.shape[1], rows = inner > 0 ? a.element_count() / inner : 0;
  OnnxArray result{.shape = a.shape, .has_floats = true, .floats = {}, .integers = {}, .name = {}};
  result.shape.back() = columns;
  f.count(result.shape);
  constexpr std::int64_t most = std::int64_t{1} << 28;  // multiplications
  std::int64_t products = 0;
  if (__builtin_mul_overflow(rows * inner, columns, &products) || products > most)
    f.refuse("of constants is too large");
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum_of = 0.0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum_of += static_cast<double>(a.floats[static_cast<std::size_t>(r * inner + k)]) *
                  b.floats[static_cast<std::size_t>(k * columns + c)];
      }
      result.floats.push_back(static_cast<float>(sum_of));
    }
  }
  return result;
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

/// Combines the elements along some axes: combine(sum so far, element), from `start`.
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

struct Folding {
  std::string_view type;
  OnnxArray (*fold)(const Folded&);
};

constexpr Folding foldings[] = {{"Abs", fold_abs},
                                {"Add", fold_add},
                                {"And", fold_and},
                                {"Cast", fold_cast},
                                {"CastLike", fold_cast_like},
                                {"Ceil", fold_ceil},
                                {"Clip", fold_clip},
                                {"Concat", fold_concat},
                                {"Constant", fold_constant},
                                {"ConstantOfShape", fold_constant_of_shape},
                                {"Cos", fold_cos},
                                {"CumSum", fold_cum_sum},
                                {"Div", fold_div},
                                {"Equal", fold_equal},
                                {"Erf", fold_erf},
                                {"Exp", fold_exp},
                                {"Expand", fold_expand},
                                {"Flatten", fold_flatten},
                                {"Floor", fold_floor},
                                {"Gather", fold_gather},
                                {"Greater", fold_greater},
                                {"GreaterOrEqual", fold_greater_or_equal},
                                {"Identity", fold_identity},
                                {"Less", fold_less},
                                {"LessOrEqual", fold_less_or_equal},
                                {"Log", fold_log},
                                {"MatMul", fold_mat_mul},
                                {"Max", fold_max},
                                {"Min", fold_min},
                                {"Mod", fold_mod},
                                {"Mul", fold_mul},
                                {"Neg", fold_neg},
                                {"Not", fold_not},
                                {"Or", fold_or},
                                {"Pow", fold_pow},
                                {"Range", fold_range},
                                {"Reciprocal", fold_reciprocal},
                                {"ReduceL2", fold_reduce_l2},
                                {"ReduceMax", fold_reduce_max},
                                {"ReduceMean", fold_reduce_mean},
                                {"ReduceProd", fold_reduce_prod},
                                {"ReduceSum", fold_reduce_sum},
                                {"Relu", fold_relu},
                                {"Reshape", fold_reshape},
                                {"Shape", fold_shape},
                                {"Sigmoid", fold_sigmoid},
                                {"Sign", fold_sign},
                                {"Sin", fold_sin},
                                {"Size", fold_size},
                                {"Slice", fold_slice},
                                {"Softplus", fold_softplus},
                                {"Sqrt", fold_sqrt},
                                {"Squeeze", fold_squeeze},
                                {"Sub", fold_sub},
                                {"Tanh", fold_tanh},
                                {"Tile", fold_tile},
                                {"Transpose", fold_transpose},
                                {"Unsqueeze", fold_unsqueeze},
                                {"Where", fold_where}};

}  // namespace

bool can_fold(std::string_view type) { return std::ranges::find(foldings, type, &Folding::type) != std::end(foldings); }

OnnxConstant fold(const OnnxNode& node, std::span<const OnnxConstant> inputs, std::int64_t operator_set,
                  const OnnxFile& file) {
  const auto* const folding = std::ranges::find(foldings, node.type(), &Folding::type);
  check(folding != std::end(foldings), "the node cannot be folded");
  auto result = std::make_shared<OnnxArray>(folding->fold({node, inputs, operator_set, file}));
  if (result->shape.size() > max_axes) {
    fail(ExitCode::data, "{}: the node '{}' ({}) computes a constant with more than {} axes", file.path().string(),
         printable(node.name()), node.type(), max_axes);
  }
  constexpr std::string_view keeps_values[] = {"Cast",    "CastLike", "Flatten",   "Identity",
                                               "Reshape", "Squeeze",  "Transpose", "Unsqueeze"};
  result->is_derived = result->is_derived || std::ranges::find(keeps_values, node.type()) == std::end(keeps_values);
  return result;
}

}  // namespace carillon
