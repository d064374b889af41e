// Imports ONNX's dense layers and products of matrices.
#include <algorithm>
#include <cctype>
#include <string>

#include "kernels/dense/dense.h"
#include "kernels/layout/layout.h"
#include "kernels/matmul/matmul.h"
#include "src/models/layers.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

/// Transposes a matrix [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      result[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return result;
}

/// Adds a dense layer with constant weights. `turned`: the weights are [out, in].
void add_dense(Importer& importer, const OnnxNode& node, const OnnxArray& weights, bool turned, OnnxConstant biases,
               const std::string& output) {
  const Placed x = importer.input(node);
  if (weights.shape.size() != 2) importer.refuse(node, "needs weights with two extents");
  const std::int64_t in = weights.shape[turned ? 1 : 0], out = weights.shape[turned ? 0 : 1];
  if (x.shape.back() != in) importer.refuse(node, "has weights for another number of inputs");
  if (biases && biases->element_count() != out) importer.refuse(node, "has biases that do not match its outputs");
  const std::string name = importer.layer_name(node, weights);
  bool is_new = false;
  const std::int64_t units = importer.units_of(node, out, name, is_new);
  const bool per_position = x.rank() > 2;
  const Placed rows = importer.with_last(node, x, static_cast<int>(x.rank()) - 1);
  if (!is_new) {
    Stored matrix;
    if (turned) matrix = {.order = "turned", .values = [&] { return transposed(weights.floats, out, in); }};
    importer.give(name + "/weights", weights, matrix);
    if (biases) importer.give(name + "/biases", *biases);
  }
  const Value value = dense(importer.graph(), name, rows.value,
                            {.units = units,
                             .weights = fan_in(in),
                             .biases = biases ? std::optional(Initializer{}) : std::nullopt,
                             .l2_factor = importer.settings().regularization,
                             .per_position = per_position});
  Placed y = with_value(rows, value);
  y.shape.back() = units;
  importer.alias(output, std::move(y));
}

void add_gemm(Importer& importer, const OnnxNode& node) {
  if (node.number("alpha", 1.0f) != 1.0f || node.number("beta", 1.0f) != 1.0f || node.integer("transA", 0) != 0) {
    importer.refuse(node, "has alpha, beta or transA, which is not supported");
  }
  const OnnxConstant biases = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  add_dense(importer, node, *importer.floats(node, 1), node.integer("transB", 0) != 0, biases, node.output());
}

/// Returns an operand of a matrix product. The last two axes are the matrices. Sets `is_transposed` if the matrices are
/// transposed in memory.
Value matrices(Importer& importer, const OnnxNode& node, const Placed& x, bool& is_transposed) {
  if (x.batch_axis() + 2 >= x.rank()) importer.refuse(node, "does not keep the batch");
  const std::vector<int> order = natural_order(x);
  std::vector<int> turned = order;
  std::swap(turned[x.rank() - 1], turned[x.rank() - 2]);
  is_transposed = stored_order(x) == turned;
  return importer.arranged(node, x, is_transposed ? turned : order);
}

/// Adds the matrix product of two values. An array of the file also counts as a value, unless it is the weights of a
/// dense layer.
void add_product(Importer& importer, const OnnxNode& node) {
  Placed a = importer.input(node, 0), b = importer.input(node, 1);
  if (a.lacks_batch() && b.lacks_batch()) importer.refuse(node, "multiplies arrays, which is not supported");
  a = importer.with_batch(node, a, b);
  b = importer.with_batch(node, b, a);
  if (a.rank() != b.rank() || a.rank() < 3 || !a.has_batch_of(b)) {
    importer.refuse(node, "multiplies values of these shapes, which is not supported");
  }
  if (std::optional<Placed> y = importer.fused_attention(node, a, b)) return importer.set_output(node, std::move(*y));
  Extents shape_a = a.shape, shape_b = b.shape;
  for (std::size_t i = 0; i + 2 < a.rank(); ++i) {
    const std::int64_t extent = std::max(shape_a[i], shape_b[i]);
    shape_a[i] = shape_b[i] = extent;
  }
  a = importer.repeated(node, a, shape_a);
  b = importer.repeated(node, b, shape_b);
  MatmulParams params;
  const Value first = matrices(importer, node, a, params.transpose_a);
  const Value second = matrices(importer, node, b, params.transpose_b);
  const Value y = matmul(importer.graph(), importer.op_name(node), first, second, params);
  Extents shape = a.shape;
  shape.back() = b.shape.back();
  importer.set_output(node, Importer::placed(y, std::move(shape), natural_order(a), a.batch));
}

void add_matmul(Importer& importer, const OnnxNode& node) {
  const OnnxConstant weights = importer.constant(node, 1);
  const bool is_dense = weights != nullptr && weights->has_floats && weights->shape.size() == 2 &&
                        importer.is_placed(node, 0) && !importer.input(node).lacks_batch();
  if (!is_dense) return add_product(importer, node);
  const OnnxNode* const sum = importer.sole_reader(node.output());
  if (sum != nullptr && sum->type() == "Add") {
    for (const int i : {0, 1}) {
      const OnnxConstant biases = importer.constant(*sum, i);
      const bool are_biases = biases != nullptr && biases->has_floats && !biases->shape.empty() &&
                              biases->shape.size() <= importer.input(node).file_rank() &&
                              biases->element_count() == weights->shape.back() &&
                              biases->shape.back() == biases->element_count();
      if (!are_biases) continue;
      importer.skip(*sum);
      return add_dense(importer, node, *weights, false, biases, sum->output());
    }
  }
  add_dense(importer, node, *weights, false, nullptr, node.output());
}

// Einsum

/// An operand of a product of two tensors, with a letter for each axis.
struct Lettered {
  Placed x;
  std::string letters;

  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  std::int64_t extent(char letter) const { return x.shape[letters.find(letter)]; }
};

/// Returns the value as [batch, shared axes..., rows, columns]. `rows`, `columns`: the letters of the axes that are
/// joined into rows and into columns.
Value as_matrices(Importer& importer, const OnnxNode& node, const Lettered& of, const std::string& shared,
                  const std::string& rows, const std::string& columns) {
  std::vector<int> order;
  for (const char letter : shared + rows + columns) order.push_back(static_cast<int>(of.letters.find(letter)));
  const Value value = importer.arranged(node, of.x, order);
  Extents extents;
  for (std::size_t i = 1; i < shared.size(); ++i) extents.push_back(of.extent(shared[i]));
  for (const std::string* const joined : {&rows, &columns}) {
    std::int64_t count = 1;
    for (const char letter : *joined) count *= of.extent(letter);
    extents.push_back(count);
  }
  return reshape(importer.graph(), importer.op_name(node, "/matrices"), value, {.extents = extents});
}

/// Returns an operand with the letters of its axes. If the batch of the operand is absent in the file, adds the letter
/// of the batch.
Lettered lettered(Importer& importer, const OnnxNode& node, int i, std::string letters, char batch) {
  Lettered of{importer.input(node, i), std::move(letters)};
  if (of.x.merges_batch() || of.letters.size() != of.x.file_rank())
    importer.refuse(node, "has another number of axes than its equation");
  if (of.x.lacks_batch()) {
    if (of.has(batch)) importer.refuse(node, "has an equation that is not supported");
    of.letters.insert(of.letters.begin(), batch);
    of.x.batch = BatchInFile::separate;
  }
  return of;
}

/// Adds a sum of products of two tensors as a product of matrices.
void add_einsum(Importer& importer, const OnnxNode& node) {
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  const auto refuse = [&] {
    importer.refuse(node, "has the equation " + printable(equation) + ", which is not supported");
  };
  if (node.input_count() != 2 || comma == std::string::npos || arrow == std::string::npos || comma > arrow) refuse();
  const std::string y = equation.substr(arrow + 2), of_a = equation.substr(0, comma),
                    of_b = equation.substr(comma + 1, arrow - comma - 1);
  for (const std::string* const letters : {&of_a, &of_b, &y}) {
    for (const char letter : *letters) {
      if (std::isalpha(static_cast<unsigned char>(letter)) == 0 || std::ranges::count(*letters, letter) != 1) refuse();
    }
  }
  if (y.empty()) refuse();
  const Lettered a = lettered(importer, node, 0, of_a, y[0]), b = lettered(importer, node, 1, of_b, y[0]);
  if (!a.has(y[0]) || !b.has(y[0]) || !a.x.is_batch(a.letters.find(y[0])) || !b.x.is_batch(b.letters.find(y[0])))
    refuse();
  std::string shared{y[0]}, rows, columns, summed;
  for (const char letter : a.letters) {
    if (letter == y[0]) continue;
    const bool in_y = y.find(letter) != std::string::npos;
    if (b.has(letter) && a.extent(letter) != b.extent(letter)) refuse();
    if (!b.has(letter) && !in_y) refuse();
    (b.has(letter) ? (in_y ? shared : summed) : rows).push_back(letter);
  }
  for (const char letter : b.letters) {
    if (a.has(letter)) continue;
    if (y.find(letter) == std::string::npos) refuse();
    columns.push_back(letter);
  }
  const Value first = as_matrices(importer, node, a, shared, rows, summed);
  const Value second = as_matrices(importer, node, b, shared, summed, columns);
  Value product = matmul(importer.graph(), importer.op_name(node), first, second);
  const std::string letters = shared + rows + columns;  // the order in memory
  Extents extents, shape(y.size());
  std::vector<int> order;
  for (const char letter : letters) {
    const std::size_t axis = y.find(letter);
    if (axis == std::string::npos) refuse();
    const std::int64_t extent = a.has(letter) ? a.extent(letter) : b.extent(letter);
    shape[axis] = extent;
    order.push_back(static_cast<int>(axis));
    if (axis > 0) extents.push_back(extent);
  }
  if (order.size() != y.size() || y.size() < 2) refuse();
  product = reshape(importer.graph(), importer.op_name(node, "/axes"), product, {.extents = extents});
  importer.set_output(node, Importer::placed(product, std::move(shape), order));
}

constexpr Operator operators[] = {{"Einsum", add_einsum, true}, {"Gemm", add_gemm}, {"MatMul", add_matmul, true}};

}  // namespace

std::span<const Operator> product_operators() { return operators; }

}  // namespace carillon
