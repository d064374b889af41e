// AttentionProducts: the matrix products of attention on a CPU, compiled per instruction set.
#pragma once

#include <cstdint>

#include "carillon/device/isa.h"

namespace carillon {

/// Computes c = a b, or c += a b. Element (i, k) of a [rows, depth] is a[i * a_row + k * a_step]. b [depth, columns]
/// and c [rows, columns] have contiguous rows. The product reads and writes `columns` elements of each row, rounded up
/// to a multiple of 16. Each row must have memory for these elements.
struct AttentionProduct {
  const float* a = nullptr;
  std::int64_t a_row = 0, a_step = 1;
  const float* b = nullptr;
  std::int64_t b_row = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t rows = 0, columns = 0, depth = 0;
  bool add = false;
};

struct AttentionProducts {
  void (*multiply)(const AttentionProduct& product);
  /// Transposes: to[c * to_row + r] = from[r * from_row + c].
  void (*transpose)(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, float* to,
                    std::int64_t to_row);
};

const AttentionProducts& attention_products(Isa isa);

}  // namespace carillon
