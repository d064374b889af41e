// attention in bf16 on a CPU, by products of tiles (kernels/shared/bf16_tiles.h).
//
// The operands of all products are bf16. q, k, v and dy are bf16 in memory. The weights exp(S - largest S) in forward,
// and P and dS in backward, are rounded to bf16. Scores, their gradients and all sums are float32.
//
// Each thread computes one head of one sample at a time. The thread computes the scores of one chunk of queries at a
// time, so that the scores stay in the second-level cache.
#include <omp.h>

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_rows_cpu.h"
#include "kernels/shared/bf16_tiles.h"
#include "src/device/cpu_device.h"

namespace carillon {
namespace {

constexpr std::int64_t chunk_blocks = TileProduct::most_left(1);  ///< number of blocks of 16 queries in a chunk
constexpr std::int64_t chunk_rows = chunk_blocks * tile_rows;
static_assert(chunk_rows % tile_depth == 0);

/// A bf16 matrix as tiles. A left operand has the tiles [blocks of 16 rows][blocks of 32 columns]. A right operand has
/// the tiles [blocks of 16 columns][blocks of 32 rows].
struct Tiles {
  Bf16* data = nullptr;
  std::int64_t blocks = 0, steps = 0;

  Bf16* at(std::int64_t block, std::int64_t step = 0) const { return data + (block * steps + step) * tile_elements; }
};

/// Rows of bf16 in a tensor. The distance from one row to the next is `stride` elements.
struct Rows {
  Bf16* data = nullptr;
  std::int64_t stride = 0, count = 0, columns = 0;

  TileSource<Bf16> block(std::int64_t first) const {
    if (first >= count) return {};
    return {data + first * stride, stride, std::min(tile_rows, count - first)};
  }
  TileTarget<Bf16> target(std::int64_t row, std::int64_t column) const {
    return {data + row * stride + column, stride, std::min(tile_rows, count - row),
            std::min(tile_rows, columns - column)};
  }
};

/// Divides a thread's share of the workspace into parts. If there is no workspace, the object only counts the floats
/// that the parts need (used()).
class WorkspaceParts {
 public:
  explicit WorkspaceParts(float* workspace = nullptr) : workspace_(workspace) {}
  /// Allocates tiles for a left operand [width, depth] or a right operand [depth, width].
  Tiles tiles(std::int64_t width, std::int64_t depth) {
    const std::int64_t blocks = ceil_divide(width, tile_rows), steps = ceil_divide(depth, tile_depth);
    return {reinterpret_cast<Bf16*>(floats(blocks * steps * tile_elements / 2)), blocks, steps};
  }
  PaddedMatrix scores(std::int64_t tokens) {
    const std::int64_t stride = PaddedMatrix::stride_of(tokens);
    return {floats(chunk_rows * stride), stride};
  }
  float* floats(std::int64_t count) {
    const std::int64_t first = used_;
    used_ += count;
    return workspace_ == nullptr ? nullptr : workspace_ + first;
  }
  std::int64_t used() const { return used_; }

 private:
  float* workspace_;
  std::int64_t used_ = 0;
};

struct ForwardParts {
  Tiles queries, keys, values;  ///< left operand: queries; right operands: keys (the columns are tokens) and values
                                ///< (the rows are tokens)
  Tiles weights;                ///< exp(S - largest S) of a chunk, left operand
  PaddedMatrix scores;

  ForwardParts(WorkspaceParts& parts, const AttentionShape& shape)
      : queries(parts.tiles(shape.tokens, shape.head_size())),
        keys(parts.tiles(shape.tokens, shape.head_size())),
        values(parts.tiles(shape.head_size(), shape.tokens)),
        weights(parts.tiles(chunk_rows, shape.tokens)),
        scores(parts.scores(shape.tokens)) {}
};

struct BackwardParts {
  Tiles queries, dy;                          ///< left operands
  Tiles keys, values;                         ///< right operands: their columns are tokens
  Tiles token_queries, token_keys, token_dy;  ///< right operands: their rows are tokens
  Tiles rounded;                              ///< P or dS of a chunk, left operand
  Tiles transposed;                           ///< the transpose of `rounded`, left operand
  PaddedMatrix scores, gradients;
  float *dk, *dv;  ///< sums [blocks of 16 channels][blocks of 16 tokens][16][16]

  BackwardParts(WorkspaceParts& parts, const AttentionShape& shape)
      : queries(parts.tiles(shape.tokens, shape.head_size())),
        dy(parts.tiles(shape.tokens, shape.head_size())),
        keys(parts.tiles(shape.tokens, shape.head_size())),
        values(parts.tiles(shape.tokens, shape.head_size())),
        token_queries(parts.tiles(shape.head_size(), shape.tokens)),
        token_keys(parts.tiles(shape.head_size(), shape.tokens)),
        token_dy(parts.tiles(shape.head_size(), shape.tokens)),
        rounded(parts.tiles(chunk_rows, shape.tokens)),
        transposed(parts.tiles(shape.tokens, chunk_rows)),
        scores(parts.scores(shape.tokens)),
        gradients(parts.scores(shape.tokens)),
        dk(parts.floats(token_queries.blocks * queries.blocks * tile_sums)),
        dv(parts.floats(token_queries.blocks * queries.blocks * tile_sums)) {}
};

class AttentionBf16Cpu final : public Op {
 public:
  AttentionBf16Cpu(const AttentionParams& params, CpuDevice& device, const OpTensors& tensors)
      : device_(device),
        kernels_(bf16_tile_kernels(device.isa())),
        shape_(tensors.outputs.at(0).shape, params),
        x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        kept_(device.allocate(static_cast<std::size_t>(shape_.batch * shape_.heads * shape_.tokens) *
                              sizeof(AttentionRow))) {
    WorkspaceParts forward, backward;
    ForwardParts{forward, shape_};
    floats_of_thread_ = forward.used();
    if (!tensors.input_gradients.empty()) {
      dx_ = tensors.input_gradients.at(0);
      dy_ = tensors.output_gradients.at(0);
      BackwardParts{backward, shape_};
      floats_of_thread_ = std::max(floats_of_thread_, backward.used());
    }
    floats_of_thread_ = static_cast<std::int64_t>(aligned_float_count(static_cast<std::size_t>(floats_of_thread_)));
    device.reserve_workspace(static_cast<std::size_t>(device.thread_count() * floats_of_thread_) * sizeof(float));
  }

  void forward(Stream& /*stream*/) override {
    for_each_head([&](auto sample, auto head, WorkspaceParts parts) { compute_head(sample, head, {parts, shape_}); });
  }
  void backward(Stream& /*stream*/) override {
    if (!dx_) return;
    for_each_head([&](auto sample, auto head, WorkspaceParts parts) {
      differentiate_head(sample, head, {parts, shape_});
    });
  }

 private:
  enum Part { query, key, value };

  template <typename Body>
  void for_each_head(const Body& body) const {
    float* const workspace = static_cast<float*>(device_.workspace());
#pragma omp parallel num_threads(device_.thread_count())
    {
      kernels_.begin();
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < shape_.batch * shape_.heads; ++i) {
        body(i / shape_.heads, i % shape_.heads, WorkspaceParts(workspace + omp_get_thread_num() * floats_of_thread_));
      }
      kernels_.end();
    }
  }

  /// Returns the channels of one head in a tensor [batch, tokens, parts * width], one row per token of the sample.
  Rows rows_of(const Tensor& tensor, std::int64_t sample, std::int64_t head, Part part = query) const {
    const std::int64_t stride = tensor.shape[2];
    Bf16* const first = static_cast<Bf16*>(tensor.data) + sample * shape_.tokens * stride;
    return {first + part * shape_.width + head * shape_.head_size(), stride, shape_.tokens, shape_.head_size()};
  }
  AttentionRow* kept_of(std::int64_t sample, std::int64_t head) const {
    return static_cast<AttentionRow*>(kept_.data()) + (sample * shape_.heads + head) * shape_.tokens;
  }

  void pack_left(const Rows& rows, const Tiles& to) const {
    for (std::int64_t block = 0; block < to.blocks; ++block) {
      kernels_.pack_left(rows.block(block * tile_rows), rows.columns, to.at(block), tile_elements);
    }
  }
  /// Packs `rows` as a right operand: each row becomes a column of the operand.
  void pack_right_transposed(const Rows& rows, const Tiles& to) const {
    pack_left(rows, to);
    for (std::int64_t tile = 0; tile < to.blocks * to.steps; ++tile) {
      kernels_.transpose_pairs(to.data + tile * tile_elements);
    }
  }
  void pack_right(const Rows& rows, const Tiles& to) const {
    for (std::int64_t half = 0; half < 2 * to.steps; ++half) {
      kernels_.pack_right(rows.block(half * tile_rows), rows.columns, to.data + half * (tile_elements / 2),
                          to.steps * tile_elements);
    }
  }
  /// Rounds `count` rows of scores and packs them as a left operand.
  void pack_scores(const PaddedMatrix& scores, std::int64_t count, const Tiles& to) const {
    for (std::int64_t row = 0; row < count; row += tile_rows) {
      kernels_.pack_left_floats({scores.at(row), scores.stride, std::min(tile_rows, count - row)}, shape_.tokens,
                                to.at(row / tile_rows), tile_elements);
    }
  }
  /// Transposes a chunk of `blocks` blocks of 16 queries, from [queries, tokens] to [tokens, queries].
  void transpose_chunk(const Tiles& chunk, std::int64_t blocks, const Tiles& to) const {
    const std::int64_t halves = ceil_divide(blocks, 2) * 2;
    for (std::int64_t block = 0; block < to.blocks; ++block) {
      const std::int64_t column = block * tile_rows;
      for (std::int64_t half = 0; half < halves; ++half) {
        const bool exists = half < blocks;
        const Bf16* const from = chunk.at(exists ? half : 0, column / tile_depth) + column % tile_depth;
        kernels_.pack_transposed({from, tile_depth, exists ? tile_rows : 0}, tile_rows,
                                 to.at(block, half / 2) + half % 2 * tile_rows, tile_depth);
      }
    }
  }

  /// The operands of a product: blocks [first, first + count) of `left` [rows, depth], and `right` [depth, columns].
  /// The product sums over `steps` blocks of the depth. The blocks begin at depth block 0 of the left operand, and at
  /// depth block `first_step` of the right operand.
  struct Operands {
    Tiles left, right;
    std::int64_t first = 0, count = 0, steps = 0, first_step = 0;
  };
  TileProduct product_of(const Operands& o, TileList& list) const {
    list.clear();
    for (std::int64_t step = 0; step < o.steps; ++step) {
      for (std::int64_t m = 0; m < o.count; ++m) list.left.push_back(o.left.at(o.first + m, step));
      list.right.push_back((o.first_step + step) * tile_elements);
    }
    return list.product(static_cast<int>(o.count));
  }
  /// Multiplies the operands. Calls write(block, panel, sums) with the 16 x 16 sums of each block and panel.
  template <typename Write>
  void multiply(const Operands& o, const Write& write) const {
    thread_local TileList list;
    alignas(64) float sums[TileProduct::most_sums * tile_sums];
    TileProduct product = product_of(o, list);
    product.sums = sums;
    for (std::int64_t panel = 0; panel < o.right.blocks; ++panel) {
      product.right = o.right.at(panel);
      kernels_.multiply(product);
      for (std::int64_t m = 0; m < o.count; ++m) write(o.first + m, panel, sums + m * tile_sums);
    }
  }
  /// Multiplies `count` blocks of `left`, beginning with block `first`, by `right`. Writes the product to `scores`. The
  /// columns of `right` are tokens. The product is q k^T (not scaled) or dy v^T.
  void multiply_transposed(const Tiles& left, const Tiles& right, std::int64_t first, std::int64_t count,
                           const PaddedMatrix& scores) const {
    multiply({left, right, first, count, left.steps}, [&](std::int64_t block, std::int64_t panel, const float* sums) {
      kernels_.write_sums(
          sums, {scores.at((block - first) * tile_rows) + panel * tile_rows, scores.stride, tile_rows, tile_rows});
    });
  }

  /// Calls body(first block, number of blocks, number of queries) for each chunk of queries.
  template <typename Body>
  void for_each_chunk(const Body& body) const {
    const std::int64_t blocks = ceil_divide(shape_.tokens, tile_rows);
    for (std::int64_t first = 0; first < blocks; first += chunk_blocks) {
      body(first, std::min(chunk_blocks, blocks - first), std::min(chunk_rows, shape_.tokens - first * tile_rows));
    }
  }

  void compute_head(std::int64_t sample, std::int64_t head, const ForwardParts& at) const {
    pack_left(rows_of(x_, sample, head, query), at.queries);
    pack_right_transposed(rows_of(x_, sample, head, key), at.keys);
    pack_right(rows_of(x_, sample, head, value), at.values);
    const Rows y = rows_of(y_, sample, head);
    for_each_chunk([&](std::int64_t first, std::int64_t blocks, std::int64_t rows) {
      const std::int64_t first_row = first * tile_rows;
      AttentionRow* const kept = kept_of(sample, head) + first_row;
      multiply_transposed(at.queries, at.keys, first, blocks, at.scores);
      weigh_scores(at.scores, rows, shape_.tokens, shape_.scale(), kept);
      pack_scores(at.scores, rows, at.weights);
      multiply({at.weights, at.values, 0, blocks, at.weights.steps}, [&](auto block, auto panel, float* sums) {
        const TileTarget<Bf16> target = y.target(first_row + block * tile_rows, panel * tile_rows);
        for (std::int64_t row = 0; row < target.count; ++row) {
          multiply_row(sums + row * tile_rows, tile_rows, kept[block * tile_rows + row].inverse_sum);
        }
        kernels_.write_rounded(sums, {}, target);
      });
    });
  }

  /// Multiplies `transposed` (P^T or dS^T of a chunk) by dy or q of the chunk's queries, and adds the product to
  /// `sums`. The first chunk overwrites `sums`. `all`: dy or q of all tokens.
  void add_over_queries(const Tiles& transposed, const Tiles& all, std::int64_t first, std::int64_t blocks,
                        float* sums) const {
    thread_local TileList list;
    const std::int64_t part = ceil_divide(transposed.blocks, ceil_divide(transposed.blocks, TileProduct::most_left(1)));
    for (std::int64_t block = 0; block < transposed.blocks; block += part) {
      TileProduct product = product_of(
          {transposed, all, block, std::min(part, transposed.blocks - block), ceil_divide(blocks, 2), first / 2}, list);
      product.add = first > 0;
      for (std::int64_t panel = 0; panel < all.blocks; ++panel) {
        product.right = all.at(panel);
        product.sums = sums + (panel * transposed.blocks + block) * tile_sums;
        kernels_.multiply(product);
      }
    }
  }
  void write_sums(const float* sums, const Rows& to) const {
    for (std::int64_t column = 0; column < to.columns; column += tile_rows) {
      for (std::int64_t row = 0; row < to.count; row += tile_rows, sums += tile_sums) {
        kernels_.write_rounded(sums, {}, to.target(row, column));
      }
    }
  }

  void differentiate_head(std::int64_t sample, std::int64_t head, const BackwardParts& at) const {
    const Rows q = rows_of(x_, sample, head, query), k = rows_of(x_, sample, head, key),
               dy = rows_of(dy_, sample, head);
    pack_left(q, at.queries);
    pack_right(q, at.token_queries);
    pack_right_transposed(k, at.keys);
    pack_right(k, at.token_keys);
    pack_right_transposed(rows_of(x_, sample, head, value), at.values);
    pack_left(dy, at.dy);
    pack_right(dy, at.token_dy);
    const Rows dq = rows_of(dx_, sample, head, query);
    for_each_chunk([&](std::int64_t first, std::int64_t blocks, std::int64_t rows) {
      const std::int64_t first_row = first * tile_rows;
      multiply_transposed(at.queries, at.keys, first, blocks, at.scores);
      multiply_transposed(at.dy, at.values, first, blocks, at.gradients);
      differentiate_weights(at.scores, at.gradients, rows, shape_.tokens, shape_.scale(),
                            kept_of(sample, head) + first_row);
      pack_scores(at.scores, rows, at.rounded);
      transpose_chunk(at.rounded, blocks, at.transposed);
      add_over_queries(at.transposed, at.token_dy, first, blocks, at.dv);
      pack_scores(at.gradients, rows, at.rounded);
      multiply({at.rounded, at.token_keys, 0, blocks, at.rounded.steps}, [&](auto block, auto panel, float* sums) {
        kernels_.write_rounded(sums, {}, dq.target(first_row + block * tile_rows, panel * tile_rows));
      });
      transpose_chunk(at.rounded, blocks, at.transposed);
      add_over_queries(at.transposed, at.token_queries, first, blocks, at.dk);
    });
    write_sums(at.dk, rows_of(dx_, sample, head, key));
    write_sums(at.dv, rows_of(dx_, sample, head, value));
  }

  CpuDevice& device_;
  const Bf16TileKernels& kernels_;
  AttentionShape shape_;
  Tensor x_, y_, dx_, dy_;
  std::int64_t floats_of_thread_ = 0;  ///< floats of the workspace per thread
  Buffer kept_;                        ///< AttentionRow [batch, heads, tokens]
};

}  // namespace

std::unique_ptr<Op> make_attention_bf16_cpu(const AttentionParams& params, const OpContext& context,
                                            const OpTensors& tensors) {
  return std::make_unique<AttentionBf16Cpu>(params, as_cpu(*context.device), tensors);
}

}  // namespace carillon
