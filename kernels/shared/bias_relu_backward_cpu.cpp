// Rows are divided into blocks. Each block is summed separately, and the blocks' sums are added in order. Several short
// rows are processed as one long row, which fills the vectors.
#include "carillon/core/parallel.h"
#include "kernels/shared/bias_relu_backward.h"
#include "kernels/shared/element_pointer.h"

namespace carillon {
namespace {

/// Writes dz to dy for some rows, and writes the sums of the columns of dz to `sums`.
template <typename T>
[[gnu::always_inline]] inline void mask_and_sum_of(const T* __restrict y, T* __restrict dy, std::size_t rows,
                                                   std::size_t columns, float* __restrict sums) {
  for (std::size_t c = 0; c < columns; ++c) sums[c] = 0.0f;
  for (std::size_t row = 0; row < rows; ++row, y += columns, dy += columns) {
    for (std::size_t c = 0; c < columns; ++c) {
      const float given = to_float(dy[c]), dz = to_float(y[c]) > 0.0f ? given : 0.0f;
      dy[c] = stored_as<T>(dz);
      sums[c] += dz;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void sum_rows_of(const T* __restrict values, std::size_t rows, std::size_t columns,
                                               float* __restrict sums) {
  for (std::size_t c = 0; c < columns; ++c) sums[c] = 0.0f;
  for (std::size_t row = 0; row < rows; ++row, values += columns) {
    for (std::size_t c = 0; c < columns; ++c) sums[c] += to_float(values[c]);
  }
}

CARILLON_SIMD void mask_and_sum(ElementPointer y, ElementPointer dy, std::size_t rows, std::size_t columns,
                                float* sums) {
  with_float_type(
      dy.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        mask_and_sum_of(y.as<const T>(), dy.as<T>(), rows, columns, sums);
      });
}

CARILLON_SIMD void sum_rows(ElementPointer values, std::size_t rows, std::size_t columns, float* sums) {
  with_float_type(
      values.type(), [&]<typename T>(std::type_identity<T>)
                         __attribute__((always_inline)) { sum_rows_of(values.as<const T>(), rows, columns, sums); });
}

}  // namespace

BiasReluBackward::BiasReluBackward(const Tensor& y, const Tensor& dy, const Tensor& db)
    : y_(y),
      dy_(dy),
      db_(db),
      rows_(static_cast<std::size_t>(dy.shape.element_count() / db.shape[0])),
      columns_(static_cast<std::size_t>(db.shape[0])) {
  long_row_ = 1;
  while (long_row_ * columns_ < 64 && rows_ % (2 * long_row_) == 0) long_row_ *= 2;
  rows_ /= long_row_;
  columns_ *= long_row_;
  constexpr std::size_t min_rows = 16;
  blocks_ = RowBlocks(rows_, min_rows);
  block_sums_.resize(blocks_.count * columns_);
}

void BiasReluBackward::run() {
  const ElementPointer y(y_), dy(dy_);
  const std::size_t elements = blocks_.per_block * columns_;
  parallel_items(blocks_.count, elements, elementwise_grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t block = first; block < last; ++block) {
      const std::size_t row = blocks_.first_of(block), rows = blocks_.rows_of(block);
      float* const sums = block_sums_.data() + block * columns_;
      if (y_) mask_and_sum(y + row * columns_, dy + row * columns_, rows, columns_, sums);
      if (!y_) sum_rows(dy + row * columns_, rows, columns_, sums);
    }
  });
  sum_rows(block_sums_.data(), blocks_.count * long_row_, columns_ / long_row_, db_.floats().data());
}

}  // namespace carillon
