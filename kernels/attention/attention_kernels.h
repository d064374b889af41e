// The CUDA kernels of attention. All sums have a fixed order, so equal inputs give equal bits.
//
// A thread computes one row, of queries or keys, and keeps it in registers. It reads the rows of the other tokens in
// turn. The threads of a block share a sample and a head, so all of a warp read the same address at once, which costs
// one access. Hence there is no shared memory, and no thread waits for another. Softmax is computed in one pass: if a
// larger score appears, the sums so far are scaled down. Backward needs d[i] (attention.h) before it visits the keys,
// so it computes d[i] as the sum over c of dy[i, c] * y[i, c].
#pragma once

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_math.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/pack.h"

namespace carillon {

inline constexpr int attention_most_channels = 256;  ///< of a head

/// Tensors of the kernels. T: float or Bf16.
template <typename T>
struct AttentionArrays {
  const T* qkv = nullptr;        ///< [batch, tokens, 3, heads, head_size]
  T* y = nullptr;                ///< [batch, tokens, heads, head_size]
  const T* dy = nullptr;         ///< as y
  T* dqkv = nullptr;             ///< as qkv
  AttentionRow* rows = nullptr;  ///< [batch, heads, tokens]; null: forward need not write them
  float* row_terms = nullptr;    ///< d, [batch, heads, tokens]; QueryGradient writes it
};

/// The part that all kernels share. fixed_size: channels of a head, a multiple of `n`; 0: any number up to
/// attention_most_channels, with rows in local memory instead of registers.
template <typename T, int fixed_size>
struct AttentionBlock {
  using Shared = NoShared;
  static constexpr int threads = 32, phases = 1;
  static constexpr int n = fixed_size > 0 ? pack_bytes / static_cast<int>(sizeof(T)) : 1;  ///< elements of an access
  static_assert(fixed_size % n == 0);

  /// One token's channels of a head.
  struct Row {
    float at[fixed_size > 0 ? fixed_size : attention_most_channels] = {};
  };
  enum Part { query, key, value };

  AttentionArrays<T> arrays;
  int batch, tokens, heads, head_size;
  float scale;

  AttentionBlock(const AttentionShape& shape, const AttentionArrays<T>& of)
      : arrays(of),
        batch(static_cast<int>(shape.batch)),
        tokens(static_cast<int>(shape.tokens)),
        heads(static_cast<int>(shape.heads)),
        head_size(static_cast<int>(shape.head_size())),
        scale(shape.scale()) {}

  CARILLON_HOST_DEVICE int tiles() const { return (tokens + threads - 1) / threads; }
  CARILLON_HOST_DEVICE int blocks() const { return batch * heads * tiles(); }

 protected:
  CARILLON_HOST_DEVICE int size() const { return fixed_size > 0 ? fixed_size : head_size; }
  CARILLON_HOST_DEVICE int token_of(int block, int thread) const { return block % tiles() * threads + thread; }

  /// The position of a token in arrays [batch, heads, tokens].
  CARILLON_HOST_DEVICE std::int64_t row_of(int block, int token) const {
    return static_cast<std::int64_t>(block / tiles()) * tokens + token;
  }
  /// The offset of a token's channels in arrays [batch, tokens, parts, heads, head_size].
  CARILLON_HOST_DEVICE std::int64_t offset(int block, int token, int parts, int part) const {
    const int head = block / tiles() % heads, sample = block / tiles() / heads;
    const std::int64_t place = (static_cast<std::int64_t>(sample) * tokens + token) * parts + part;
    return (place * heads + head) * size();
  }
  CARILLON_HOST_DEVICE const T* input(int block, int token, Part part) const {
    return arrays.qkv + offset(block, token, 3, part);
  }
  CARILLON_HOST_DEVICE T* input_gradient(int block, int token, Part part) const {
    return arrays.dqkv + offset(block, token, 3, part);
  }
  CARILLON_HOST_DEVICE T* output(int block, int token) const { return arrays.y + offset(block, token, 1, 0); }
  CARILLON_HOST_DEVICE const T* output_gradient(int block, int token) const {
    return arrays.dy + offset(block, token, 1, 0);
  }

  CARILLON_HOST_DEVICE Row load_row(const T* from) const {
    Row row;
    for (int c = 0; c < size(); c += n) {
      const Pack<float, n> values = load_floats<n>(from + c);
      for (int i = 0; i < n; ++i) row.at[c + i] = values.at[i];
    }
    return row;
  }
  /// to = row * factor.
  CARILLON_HOST_DEVICE void store_row(const Row& row, float factor, T* to) const {
    for (int c = 0; c < size(); c += n) {
      Pack<float, n> values;
      for (int i = 0; i < n; ++i) values.at[i] = row.at[c + i] * factor;
      store_floats(values, to + c);
    }
  }
  CARILLON_HOST_DEVICE float product(const Row& row, const T* other) const {
    Pack<float, n> sums = {};
    for (int c = 0; c < size(); c += n) {
      const Pack<float, n> values = load_floats<n>(other + c);
      for (int i = 0; i < n; ++i) sums.at[i] += row.at[c + i] * values.at[i];
    }
    float sum = sums.at[0];
    for (int i = 1; i < n; ++i) sum += sums.at[i];
    return sum;
  }
  /// row += factor * other.
  CARILLON_HOST_DEVICE void add(float factor, const T* other, Row& row) const {
    for (int c = 0; c < size(); c += n) {
      const Pack<float, n> values = load_floats<n>(other + c);
      for (int i = 0; i < n; ++i) row.at[c + i] += factor * values.at[i];
    }
  }
  /// P of a row with this score.
  CARILLON_HOST_DEVICE float share(float score, const AttentionRow& row) const {
    return attention_weight(score, row.largest, scale) * row.inverse_sum;
  }
};

/// y, and the rows of scores for backward. A thread has a query.
template <typename T, int fixed_size>
struct AttentionForward : AttentionBlock<T, fixed_size> {
  using Block = AttentionBlock<T, fixed_size>;
  using Block::Block;
  using typename Block::Row;

  template <int phase>
  CARILLON_HOST_DEVICE void run(NoShared&, int block, int thread) const {
    const int token = Block::token_of(block, thread);
    if (token >= Block::tokens) return;
    const Row q = Block::load_row(Block::input(block, token, Block::query));
    State state;
    for (int first = 0; first < Block::tokens; first += keys_at_once) add_keys(q, block, first, state);
    const float inverse_sum = 1.0f / state.sum;
    Block::store_row(state.y, inverse_sum, Block::output(block, token));
    if (Block::arrays.rows != nullptr) Block::arrays.rows[Block::row_of(block, token)] = {state.largest, inverse_sum};
  }

 private:
  static constexpr int keys_at_once = 4;

  struct State {
    float largest = -INFINITY, sum = 0.0f;  ///< of the keys so far
    Row y;                                  ///< not yet divided by `sum`
  };

  CARILLON_HOST_DEVICE void add_keys(const Row& q, int block, int first, State& state) const {
    float scores[keys_at_once], largest = state.largest;
    for (int i = 0; i < keys_at_once; ++i) {
      scores[i] = -INFINITY;
      if (first + i >= Block::tokens) continue;
      scores[i] = Block::product(q, Block::input(block, first + i, Block::key));
      if (scores[i] > largest) largest = scores[i];
    }
    if (largest > state.largest) scale_down(largest, state);
    for (int i = 0; i < keys_at_once && first + i < Block::tokens; ++i) {
      const float weight = attention_weight(scores[i], largest, Block::scale);
      state.sum += weight;
      Block::add(weight, Block::input(block, first + i, Block::value), state.y);
    }
  }

  CARILLON_HOST_DEVICE void scale_down(float largest, State& state) const {
    const bool is_first = state.largest == -INFINITY;
    const float factor = is_first ? 0.0f : attention_weight(state.largest, largest, Block::scale);
    state.largest = largest;
    state.sum *= factor;
    for (int c = 0; c < Block::size(); ++c) state.y.at[c] *= factor;
  }
};

/// dq and d. A thread has a query.
template <typename T, int fixed_size>
struct AttentionQueryGradient : AttentionBlock<T, fixed_size> {
  using Block = AttentionBlock<T, fixed_size>;
  using Block::Block;
  using typename Block::Row;

  template <int phase>
  CARILLON_HOST_DEVICE void run(NoShared&, int block, int thread) const {
    const int token = Block::token_of(block, thread);
    if (token >= Block::tokens) return;
    const Row q = Block::load_row(Block::input(block, token, Block::query));
    const Row dy = Block::load_row(Block::output_gradient(block, token));
    const std::int64_t row = Block::row_of(block, token);
    const AttentionRow scores = Block::arrays.rows[row];
    const float term = Block::product(dy, Block::output(block, token));
    Block::arrays.row_terms[row] = term;
    Row dq;
    for (int j = 0; j < Block::tokens; ++j) {
      const T* const k = Block::input(block, j, Block::key);
      const float p = Block::share(Block::product(q, k), scores);
      const float dp = Block::product(dy, Block::input(block, j, Block::value));
      Block::add(p * (dp - term), k, dq);
    }
    Block::store_row(dq, Block::scale, Block::input_gradient(block, token, Block::query));
  }
};

/// dk. A thread has a key. Another kernel computes dv: one thread cannot hold k, v, dk and dv in registers.
template <typename T, int fixed_size>
struct AttentionKeyGradient : AttentionBlock<T, fixed_size> {
  using Block = AttentionBlock<T, fixed_size>;
  using Block::Block;
  using typename Block::Row;

  template <int phase>
  CARILLON_HOST_DEVICE void run(NoShared&, int block, int thread) const {
    const int token = Block::token_of(block, thread);
    if (token >= Block::tokens) return;
    const Row k = Block::load_row(Block::input(block, token, Block::key));
    const Row v = Block::load_row(Block::input(block, token, Block::value));
    Row dk;
    for (int i = 0; i < Block::tokens; ++i) {
      const std::int64_t row = Block::row_of(block, i);
      const T* const q = Block::input(block, i, Block::query);
      const float p = Block::share(Block::product(k, q), Block::arrays.rows[row]);
      const float dp = Block::product(v, Block::output_gradient(block, i));
      Block::add(p * (dp - Block::arrays.row_terms[row]), q, dk);
    }
    Block::store_row(dk, Block::scale, Block::input_gradient(block, token, Block::key));
  }
};

/// dv. A thread has a key.
template <typename T, int fixed_size>
struct AttentionValueGradient : AttentionBlock<T, fixed_size> {
  using Block = AttentionBlock<T, fixed_size>;
  using Block::Block;
  using typename Block::Row;

  template <int phase>
  CARILLON_HOST_DEVICE void run(NoShared&, int block, int thread) const {
    const int token = Block::token_of(block, thread);
    if (token >= Block::tokens) return;
    const Row k = Block::load_row(Block::input(block, token, Block::key));
    Row dv;
    for (int i = 0; i < Block::tokens; ++i) {
      const float score = Block::product(k, Block::input(block, i, Block::query));
      const float p = Block::share(score, Block::arrays.rows[Block::row_of(block, i)]);
      Block::add(p, Block::output_gradient(block, i), dv);
    }
    Block::store_row(dv, 1.0f, Block::input_gradient(block, token, Block::value));
  }
};

/// Calls body(std::integral_constant<int, fixed_size>) for heads of `size` channels.
template <typename Body>
void with_attention_size(std::int64_t size, const Body& body) {
  if (size == 32) return body(std::integral_constant<int, 32>{});
  if (size == 64) return body(std::integral_constant<int, 64>{});
  body(std::integral_constant<int, 0>{});
}

}  // namespace carillon
