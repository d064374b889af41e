// Folds nodes whose inputs are constants: products of matrices, batch norms, and replacements of elements.
#include <cmath>

#include "src/onnx/constant_folding.h"

namespace carillon {
namespace {

/// Multiplies [..., m, k] by [k, n].
OnnxArray matrix_product(const Folded& f, const OnnxArray& a, const OnnxArray& b) {
  if (!a.has_floats || !b.has_floats || a.shape.size() < 2 || b.shape.size() != 2 || a.shape.back() != b.shape[0] ||
      b.shape[0] < 1) {
    f.refuse("of constants of these shapes is not read");
  }
  const std::int64_t inner = b.shape[0], columns = b.shape[1], rows = a.element_count() / inner;
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

OnnxArray fold_mat_mul(const Folded& f) { return matrix_product(f, f.input(0), f.input(1)); }

OnnxArray fold_gemm(const Folded& f) {
  const bool has_bias = f.has(2);
  OnnxArray b = f.input(1);
  if (f.node.number("alpha", 1.0f) != 1.0f || f.node.number("beta", 1.0f) != 1.0f || f.node.integer("transA", 0) != 0 ||
      !b.has_floats || b.shape.size() != 2 || (has_bias && !f.input(2).has_floats)) {
    f.refuse("of constants of this form is not read");
  }
  if (f.node.integer("transB", 0) != 0) {
    const std::int64_t rows = b.shape[0], columns = b.shape[1];
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < rows * columns; ++i) places.push_back(i % rows * columns + i / rows);
    b = gathered(b, {columns, rows}, places);
  }
  OnnxArray y = matrix_product(f, f.input(0), b);
  if (!has_bias) return y;
  const OnnxArray bias = expanded(f, f.input(2), y.shape);
  for (std::size_t i = 0; i < y.floats.size(); ++i) y.floats[i] += bias.floats[i];
  return y;
}

/// Normalises an array [n, channels, ...]. With training_mode, uses the statistics of the array itself: PyTorch exports
/// the standardisation of weights in this way.
OnnxArray fold_batch_norm(const Folded& f) {
  OnnxArray array = f.input(0);
  if (!array.has_floats || array.shape.size() < 2) f.refuse("of an array of this shape is not read");
  const std::int64_t channels = array.shape[1], inner = strides_of(array.shape)[1];
  for (std::size_t i = 1; i < 5; ++i) {
    if (!f.input(i).has_floats || f.input(i).element_count() != channels) f.refuse("needs a number for each channel");
  }
  const bool by_statistics = f.node.integer("training_mode", 0) != 0;
  const auto epsilon = static_cast<double>(f.node.number("epsilon", 1e-5f));
  const std::int64_t count = channels > 0 ? array.element_count() / channels : 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const auto for_channel = [&](const auto& visit) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t outer = inner > 0 ? i / inner : 0;
        visit(array.floats[static_cast<std::size_t>((outer * channels + c) * inner + i - outer * inner)]);
      }
    };
    auto mean = static_cast<double>(f.input(3).floats[at]), variance = static_cast<double>(f.input(4).floats[at]);
    if (by_statistics) {
      double sum = 0.0, squares = 0.0;
      for_channel([&](float value) { sum += static_cast<double>(value); });
      mean = sum / static_cast<double>(count);
      for_channel([&](float value) { squares += std::pow(static_cast<double>(value) - mean, 2.0); });
      variance = squares / static_cast<double>(count);
    }
    const double factor = static_cast<double>(f.input(1).floats[at]) / std::sqrt(variance + epsilon);
    for_channel([&](float& value) {
      value =
          static_cast<float>((static_cast<double>(value) - mean) * factor + static_cast<double>(f.input(2).floats[at]));
    });
  }
  return array;
}

/// Replaces elements, or blocks of elements, of a copy of input 0. Input 1: [..., k], indices on the first k axes.
OnnxArray fold_scatter_nd(const Folded& f) {
  OnnxArray array = f.input(0);
  const OnnxArray& updates = f.input(2);
  const Extents& indices = f.integers_of(1);
  const Extents& shape = f.input(1).shape;
  if (f.node.text("reduction", "none") != "none") f.refuse("adds elements, which is not supported");
  if (shape.empty() || shape.back() < 1 || shape.back() > static_cast<std::int64_t>(array.shape.size()) ||
      updates.has_floats != array.has_floats) {
    f.refuse("has indices or updates that do not match its input");
  }
  const auto axes = static_cast<std::size_t>(shape.back());
  const Extents strides = strides_of(array.shape);
  const std::int64_t block = strides[axes - 1], count = static_cast<std::int64_t>(indices.size() / axes);
  if (updates.element_count() != count * block) f.refuse("has updates of another shape than its indices");
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = 0;
    for (std::size_t k = 0; k < axes; ++k) {
      const std::int64_t given = indices[static_cast<std::size_t>(i) * axes + k];
      const std::int64_t index = given < 0 ? given + array.shape[k] : given;
      if (index < 0 || index >= array.shape[k]) f.refuse("writes an element that its input lacks");
      place += index * strides[k];
    }
    const auto copy = [&](const auto& from, auto& to) {
      std::copy_n(from.begin() + i * block, block, to.begin() + place);
    };
    if (array.has_floats) {
      copy(updates.floats, array.floats);
    } else {
      copy(updates.integers, array.integers);
    }
  }
  return array;
}

constexpr Folding foldings[] = {{"BatchNormalization", fold_batch_norm},
                                {"Gemm", fold_gemm},
                                {"MatMul", fold_mat_mul},
                                {"ScatterND", fold_scatter_nd}};

}  // namespace

std::span<const Folding> layer_foldings() { return foldings; }

}  // namespace carillon
