#include "kernels/shared/rows_cpu.h"

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

CARILLON_SIMD void add_to(const float* __restrict sums, std::size_t columns, float* __restrict to) {
  for (std::size_t c = 0; c < columns; ++c) to[c] += sums[c];
}

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

CARILLON_SIMD void read_floats(ElementPointer from, std::size_t count, float* __restrict to) {
  with_float_type(
      from.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const elements = from.as<T>();
        for (std::size_t i = 0; i < count; ++i) to[i] = to_float(elements[i]);
      });
}

CARILLON_SIMD void write_floats(const float* __restrict from, std::size_t count, ElementPointer to) {
  with_float_type(
      to.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        T* const elements = to.as<T>();
        for (std::size_t i = 0; i < count; ++i) elements[i] = stored_as<T>(from[i]);
      });
}

void add_blocks(const float* sums, std::size_t count, std::size_t stride, const Tensor& to) {
  const std::span<float> totals = to.floats();
  std::copy_n(sums, totals.size(), totals.begin());
  for (std::size_t block = 1; block < count; ++block) add_to(sums + block * stride, totals.size(), totals.data());
}

// Several short rows are processed as one long row, because a long row fills the vectors.
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
