// Loops of CPU ops over rows of activations: they convert rows to and from float32, and sum columns over many rows.
//
// A sum of columns divides the rows into blocks. Each block is summed separately, and the blocks' sums are added in
// order. The shape alone fixes the order of every sum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "carillon/core/tensor.h"
#include "kernels/shared/float_type.h"
#include "src/core/bf16.h"

namespace carillon {

/// to[i] = from[i].
void read_floats(ElementPointer from, std::size_t count, float* to);
/// to[i] = from[i], rounded to the type of `to`.
void write_floats(const float* from, std::size_t count, ElementPointer to);

/// Returns `count` elements as floats. If they are float32, returns their address. Otherwise writes the converted
/// elements to `scratch` and returns `scratch`.
inline const float* floats_at(ElementPointer elements, std::size_t count, float* scratch) {
  if (elements.type() == DType::f32) return elements.as<const float>();
  read_floats(elements, count, scratch);
  return scratch;
}

/// Calls body(address), which writes `count` floats to the address. If the elements are float32, the address is the
/// address of the elements. Otherwise the address is `scratch`, and write_at then converts the floats to the type of
/// the elements.
template <typename Body>
void write_at(ElementPointer elements, std::size_t count, float* scratch, const Body& body) {
  if (elements.type() == DType::f32) return body(elements.as<float>());
  body(scratch);
  write_floats(scratch, count, elements);
}

/// Returns the address at which the sums of a row are accumulated in float32. If the row is float32, this is the
/// address of the row; otherwise it is in scratch memory.
[[gnu::always_inline]] inline float* sums_of(float* row, float* /*scratch*/) { return row; }
[[gnu::always_inline]] inline float* sums_of(Bf16* /*row*/, float* scratch) { return scratch; }

/// `sums`: the address that sums_of returned. Converts these sums to the type of the row, and stores them in the row.
/// Does nothing for float32.
[[gnu::always_inline]] inline void store_sums(const float* /*sums*/, std::int64_t /*count*/, float* /*row*/) {}
[[gnu::always_inline]] inline void store_sums(const float* __restrict sums, std::int64_t count, Bf16* __restrict row) {
  for (std::int64_t c = 0; c < count; ++c) row[c] = to_bf16(sums[c]);
}

/// The division of `rows` rows into blocks.
struct RowBlocks {
  static constexpr std::size_t max_count = 128;

  std::size_t rows = 0, per_block = 1, count = 0;

  RowBlocks() = default;
  /// Every block except the last has at least `least` rows.
  RowBlocks(std::size_t rows_, std::size_t least)
      : rows(rows_),
        per_block(std::max(least, (rows_ + max_count - 1) / max_count)),
        count((rows_ + per_block - 1) / per_block) {}

  std::size_t first_of(std::size_t block) const { return block * per_block; }
  std::size_t rows_of(std::size_t block) const { return std::min(per_block, rows - first_of(block)); }
};

/// to[c] = sums[c] + sums[stride + c] + ... for `count` blocks. `to`: float32.
void add_blocks(const float* sums, std::size_t count, std::size_t stride, const Tensor& to);

/// BiasReluBackward: the backward pass of y = relu(z + b), for dense and conv2d.
///
///   dz[r,c] = y[r,c] > 0 ? dy[r,c] : 0   in place of dy; without ReLU dz = dy
///   db[c] = sum over r of dz[r,c]
///
/// y, dy: [rows, columns] in f32 or bf16; `rows` is the product of all extents except the last. db: [columns] in
/// float32. Reads dy once.
class BiasReluBackward {
 public:
  /// If `y` has no data, the op has no ReLU.
  BiasReluBackward(const Tensor& y, const Tensor& dy, const Tensor& db);

  /// The order of summation depends only on the shapes.
  void run();

 private:
  Tensor y_, dy_, db_;
  std::size_t long_row_;        ///< number of short rows that are processed as one long row
  std::size_t rows_, columns_;  ///< number of long rows; number of elements of a long row
  RowBlocks blocks_;
  std::vector<float> block_sums_;  ///< [blocks_.count, columns]
};

}  // namespace carillon
