// SparseProductKernels for one instruction set.
#include "kernels/dense/sparse_product_kernels.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

/// The sums of a block and a panel fill about two thirds of the registers. If a block has fewer rows, it multiplies
/// fewer zeros. But enough products must follow each load of b to hide the latency of the load. Four rows hide a load
/// from the second-level cache, and two rows hide a load from the first-level cache.
constexpr int block_rows = lanes == 16 ? 4 : 2, panel_vectors = lanes == 16 ? 4 : 5;
constexpr int panel_columns = panel_vectors * lanes;
constexpr int panel_bytes_in_cache = lanes == 16 ? 256 << 10 : 28 << 10;
constexpr int max_piece_steps =
    panel_bytes_in_cache / (panel_columns * static_cast<int>(sizeof(float))) / lanes * lanes;

CARILLON_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Computes the product of a block of rows and a panel of columns, over the steps of one piece.
struct Block {
  const float* a;
  std::int64_t row_stride, step_stride;
  const std::int32_t* steps;  ///< the steps to process
  std::int64_t step_count;
  const float* b;
  const float* start;         ///< initial sums; null: zeros
  std::int64_t start_stride;  ///< row stride of `start`
  float* c;
  std::int64_t columns;     ///< row stride of b and c
  std::int64_t last_lanes;  ///< number of columns in the panel's last vector
  bool relu;
};

/// Loads and stores vector v of a panel. If `whole` is false, the last vector has only `last_lanes` lanes.
template <int vectors, bool whole>
struct Panel {
  std::int64_t last_lanes;

  template <int v>
  CARILLON_INLINE Floats load_from(const float* row) const {
    if constexpr (whole || v < vectors - 1) return load(row + v * lanes);
    return load_first(row + v * lanes, last_lanes);
  }
  template <int v>
  CARILLON_INLINE void store_to(float* row, Floats values) const {
    if constexpr (whole || v < vectors - 1) {
      store(row + v * lanes, values);
    } else {
      store_first(row + v * lanes, values, last_lanes);
    }
  }
};

template <int rows, int vectors, bool whole>
__attribute__((noinline)) void run_block(const Block& block) {
  const Panel<vectors, whole> panel{block.last_lanes};
  Floats sums[rows][vectors];
  const auto for_sums = [](const auto& body) __attribute__((always_inline)) {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) { body(r, v); });
    });
  };
  for_sums([&](auto r, auto v) __attribute__((always_inline)) { sums[r.value][v.value] = Floats{}; });
  if (block.start != nullptr) {
    for_sums([&](auto r, auto v) __attribute__((always_inline)) {
      sums[r.value][v.value] = panel.template load_from<v.value>(block.start + r.value * block.start_stride);
    });
  }
  const float *const a = block.a, *const b = block.b;
  float* const c = block.c;
  const std::int64_t row_stride = block.row_stride, step_stride = block.step_stride, columns = block.columns;
  for (std::int64_t i = 0; i < block.step_count; ++i) {
    const float *const a_step = a + block.steps[i] * step_stride, *const b_step = b + block.steps[i] * columns;
    Floats factors[rows];
    unroll<rows>([&](auto r)
                     __attribute__((always_inline)) { factors[r.value] = broadcast(a_step[r.value * row_stride]); });
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      const Floats values = in_register(panel.template load_from<v.value>(b_step));
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        sums[r.value][v.value] = fma(factors[r.value], values, sums[r.value][v.value]);
      });
    });
  }
  if (block.relu) {
    for_sums([&](auto r, auto v)
                 __attribute__((always_inline)) { sums[r.value][v.value] = relu(sums[r.value][v.value]); });
  }
  for_sums([&](auto r, auto v) __attribute__((always_inline)) {
    panel.template store_to<v.value>(c + r.value * columns, sums[r.value][v.value]);
  });
}

/// Calls run_block for numbers of rows and columns that are known only at run time.
CARILLON_INLINE void run(std::int64_t rows, std::int64_t columns, Block& block) {
  unroll<block_rows>([&](auto r) __attribute__((always_inline)) {
    if (rows != r.value + 1) return;
    if (columns == panel_columns) return run_block<r.value + 1, panel_vectors, true>(block);
    const std::int64_t vectors = (columns + lanes - 1) / lanes;
    block.last_lanes = columns - (vectors - 1) * lanes;
    unroll<panel_vectors>([&](auto v) __attribute__((always_inline)) {
      if (vectors == v.value + 1) run_block<r.value + 1, v.value + 1, false>(block);
    });
  });
}

/// Writes the list of one block and piece.
class StepList {
 public:
  StepList(const StepLists& lists, std::int64_t block, std::int64_t piece)
      : start_(lists.steps + (block * lists.pieces + piece) * lists.stride),
        end_(start_),
        count_(lists.counts + block * lists.pieces + piece) {}

  /// Appends step + i for each set bit i of the lowest `lanes` bits of `bits`.
  CARILLON_INLINE void append(std::uint32_t bits, std::int64_t step) {
    end_ += expand_bits(bits, static_cast<std::int32_t>(step), end_);
  }
  CARILLON_INLINE void finish() const { *count_ = static_cast<std::int32_t>(end_ - start_); }

 private:
  std::int32_t *start_, *end_, *count_;
};

/// Calls body(piece, first, last) with the steps of each piece.
template <typename Body>
CARILLON_INLINE void for_pieces(const StepLists& lists, std::int64_t steps, const Body& body) {
  for (std::int64_t piece = 0; piece < lists.pieces; ++piece) {
    const std::int64_t first = piece * lists.piece_steps;
    body(piece, first, smaller(first + lists.piece_steps, steps));
  }
}

void list_steps(const SparseMatrix& a, std::int64_t first, std::int64_t last, const StepLists& lists) {
  for (std::int64_t block = first; block < last; ++block) {
    const float* const rows = a.data + block * block_rows * a.row_stride;
    const std::int64_t row_count = smaller(block_rows, a.rows - block * block_rows);
    for_pieces(
        lists, a.steps, [&](std::int64_t piece, std::int64_t begin, std::int64_t end) __attribute__((always_inline)) {
          StepList list(lists, block, piece);
          for (std::int64_t step = begin; step < end; step += lanes) {
            std::uint32_t bits = 0;
            for (std::int64_t r = 0; r < row_count; ++r) {
              bits |= nonzero_lanes(load_within(rows + r * a.row_stride, step, end));
            }
            list.append(bits, step);
          }
          list.finish();
        });
  }
}

constexpr int word_bits = 32;
typedef std::uint32_t Words __attribute__((vector_size(lanes * sizeof(std::uint32_t))));

/// For each of `lanes` rows, starting at `row`, returns one bit per step in [begin, end), at most `word_bits` steps.
/// The bit is 1 if the element of a is not zero.
CARILLON_INLINE Words nonzero_steps(const SparseMatrix& a, std::int64_t row, std::int64_t begin, std::int64_t end) {
  Words words{};
  for (std::int64_t step = begin; step < end; ++step) {
    const Floats values = load_within(a.data + step * a.step_stride, row, a.rows);
    words |= (Words)(values != Floats{}) & (std::uint32_t{1} << (step - begin));
  }
  return words;
}

/// Processes adjacent rows, one per lane, so that it computes the bits of several blocks at the same time.
void list_steps_transposed(const SparseMatrix& a, std::int64_t first, std::int64_t last, const StepLists& lists) {
  static_assert(lanes % block_rows == 0, "a vector must hold whole blocks");
  constexpr std::int64_t vector_blocks = lanes / block_rows;
  const std::int64_t max_words = (lists.piece_steps + word_bits - 1) / word_bits;
  for (std::int64_t vector = first / vector_blocks; vector * vector_blocks < last; ++vector) {
    for_pieces(
        lists, a.steps, [&](std::int64_t piece, std::int64_t begin, std::int64_t end) __attribute__((always_inline)) {
          Words words[max_piece_steps / word_bits + 1];
          for (std::int64_t w = 0; w < max_words; ++w) {
            const std::int64_t step = begin + w * word_bits;
            words[w] = nonzero_steps(a, vector * lanes, step, smaller(step + word_bits, end));
          }
          for (std::int64_t i = 0; i < vector_blocks; ++i) {
            const std::int64_t block = vector * vector_blocks + i;
            if (block < first || block >= last) continue;
            StepList list(lists, block, piece);
            for (std::int64_t w = 0; w < max_words; ++w) {
              std::uint32_t bits = 0;
              for (int r = 0; r < block_rows; ++r) bits |= words[w][i * block_rows + r];
              for (int shift = 0; shift < word_bits; shift += lanes) {
                list.append(bits >> shift, begin + w * word_bits + shift);
              }
            }
            list.finish();
          }
        });
  }
}

void multiply(const SparseProduct& product, std::int64_t panel, std::int64_t first, std::int64_t last) {
  const StepLists& lists = product.lists;
  const std::int64_t column = panel * panel_columns, columns = smaller(panel_columns, product.columns - column);
  for (std::int64_t piece = 0; piece < lists.pieces; ++piece) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = i * block_rows, list = i * lists.pieces + piece;
      float* const c = product.c + row * product.columns + column;
      Block block{.a = product.a.data + row * product.a.row_stride,
                  .row_stride = product.a.row_stride,
                  .step_stride = product.a.step_stride,
                  .steps = lists.steps + list * lists.stride,
                  .step_count = lists.counts[list],
                  .b = product.b + column,
                  .start = product.bias == nullptr ? nullptr : product.bias + column,
                  .start_stride = 0,
                  .c = c,
                  .columns = product.columns,
                  .last_lanes = lanes,
                  .relu = product.relu && piece == lists.pieces - 1};
      if (piece > 0) {
        block.start = c;
        block.start_stride = product.columns;
      }
      run(smaller(block_rows, product.a.rows - row), columns, block);
    }
  }
}

/// If `a` has no zeros, the kernels take longer than oneDNN's product: 1.05 times as long with 16 lanes, 1.65 times
/// with 8 lanes, and 1.4 times with 4 lanes. Each limit is a little below the inverse of this factor.
constexpr float max_share = lanes == 16 ? 0.9f : lanes == 8 ? 0.55f : 0.65f;

constexpr SparseProductKernels kernels{.max_share = max_share,
                                       .block_rows = block_rows,
                                       .panel_columns = panel_columns,
                                       .max_piece_steps = max_piece_steps,
                                       .lanes = lanes,
                                       .list_steps = list_steps,
                                       .list_steps_transposed = list_steps_transposed,
                                       .multiply = multiply};

}  // namespace

const SparseProductKernels& sparse_product_kernels() { return kernels; }

}  // namespace carillon::CARILLON_ISA
