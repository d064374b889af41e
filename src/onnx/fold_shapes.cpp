// Folds nodes that move values or compute shapes, and finds the function of a node.
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "src/onnx/constant_folding.h"

namespace carillon {

OnnxArray integer_array(Extents shape, Extents values) {
  return {.shape = std::move(shape), .has_floats = false, .floats = {}, .integers = std::move(values), .name = {}};
}

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

Extents strides_of(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Extents broadcast_shape_of(const Folded& f, const Extents& a, const Extents& b) {
  Extents shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1, from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) f.refuse("has inputs of different shapes");
    shape[shape.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return shape;
}

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

std::int64_t product(const Folded& f, std::int64_t a, std::int64_t b) {
  if (__builtin_mul_overflow(a, b, &a)) f.refuse("computes an integer that is too large");
  return a;
}

namespace {

/// Returns `values` as an array with one axis.
OnnxArray integer_list(Extents values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return integer_array({count}, std::move(values));
}

OnnxArray with_shape(const OnnxArray& array, Extents shape) {
  OnnxArray same = array;
  same.shape = std::move(shape);
  return same;
}

OnnxArray fold_constant(const Folded& f) {
  if (const onnx::Tensor* const tensor = f.node.tensor("value")) {
    OnnxArray array = *f.file.read(*tensor, f.node.output());
    array.name.clear();  // it is not an initializer
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

/// Exporters store equal arrays once. For each duplicate they write an Identity node, so the copy gets the name of the
/// node's output.
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

OnnxArray fold_unsqueeze(const Folded& f) { return with_shape(f.input(0), unsqueezed_shape(f)); }

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
  std::vector<Extents> kept;  // [axis]: the indices that are kept
  if (array.element_count() == 0 && array.shape.size() > 1) f.refuse("of an empty array is not read");
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

OnnxArray fold_one_hot(const Folded& f) {
  const OnnxArray &indices = f.input(0), &values = f.input(2);
  const std::int64_t depth = f.integer(1);
  if (indices.has_floats || values.element_count() != 2 || depth < 1) f.refuse("has no indices, depth and two values");
  Extents shape = indices.shape;
  const std::size_t axis = f.axis(f.node.integer("axis", -1), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  f.count(shape);
  const Extents strides = strides_of(indices.shape);
  std::vector<std::int64_t> places;  // indices into `values`: 0 is the off value, 1 is the on value
  for_each_index(shape, [&](const Extents& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0, k = 0; i < index.size(); ++i) at += i == axis ? 0 : index[i] * strides[k++];
    const std::int64_t given = indices.integers[static_cast<std::size_t>(at)];
    places.push_back((given < 0 ? given + depth : given) == index[axis] ? 1 : 0);
  });
  return gathered(values, shape, places);
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

constexpr Folding shape_foldings[] = {{"CastLike", fold_cast_like},  {"Concat", fold_concat},
                                      {"Constant", fold_constant},   {"ConstantOfShape", fold_constant_of_shape},
                                      {"Expand", fold_expand},       {"Flatten", fold_flatten},
                                      {"Gather", fold_gather},       {"Identity", fold_identity},
                                      {"OneHot", fold_one_hot},      {"Range", fold_range},
                                      {"Reshape", fold_reshape},     {"Shape", fold_shape},
                                      {"Size", fold_size},           {"Slice", fold_slice},
                                      {"Squeeze", fold_squeeze},     {"Tile", fold_tile},
                                      {"Transpose", fold_transpose}, {"Unsqueeze", fold_unsqueeze}};

/// Returns null if nodes of this type cannot be folded.
const Folding* find_folding(std::string_view type) {
  for (const std::span<const Folding> foldings :
       {std::span<const Folding>(shape_foldings), arithmetic_foldings(), layer_foldings()}) {
    const auto found = std::ranges::find(foldings, type, &Folding::type);
    if (found != foldings.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

Extents unsqueezed_shape(const Folded& f) {
  const Extents axes = f.integers(1, "axes").value_or(Extents{});
  Extents shape = f.input(0).shape;
  if (shape.size() + axes.size() > max_axes) f.refuse("computes a constant with too many axes");
  std::vector<std::size_t> places;
  for (const std::int64_t axis : axes) places.push_back(f.axis(axis, shape.size() + axes.size()));
  std::ranges::sort(places);
  for (const std::size_t place : places) {
    if (place > shape.size()) f.refuse("has an axis that its input lacks");
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
  }
  return shape;
}

bool can_fold(std::string_view type) { return find_folding(type) != nullptr; }

OnnxConstant fold(const OnnxNode& node, std::span<const OnnxConstant> inputs, std::int64_t operator_set,
                  const OnnxFile& file) {
  const Folding* const folding = find_folding(node.type());
  check(folding != nullptr, "the node cannot be folded");
  auto result = std::make_shared<OnnxArray>(folding->fold({node, inputs, operator_set, file}));
  if (result->shape.size() > max_axes) {
    fail(ExitCode::data, "{}: the node '{}' ({}) computes a constant with more than {} axes", file.path().string(),
         printable(node.name()), node.type(), max_axes);
  }
  constexpr std::string_view keeps_values[] = {"Cast",    "CastLike", "Flatten",   "Identity",
                                               "Reshape", "Squeeze",  "Transpose", "Unsqueeze"};
  const bool rounds =
      node.type() == "Cast" && inputs[0]->has_floats && result->has_floats && result->floats != inputs[0]->floats;
  result->is_derived = rounds || std::ranges::find(keeps_values, node.type()) == std::end(keeps_values) ||
                       std::ranges::any_of(inputs, [](const OnnxConstant& one) { return one && one->is_derived; });
  return result;
}

}  // namespace carillon
