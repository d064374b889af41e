// The definition of attention, and the op on a CPU in float32: each thread computes one head of one sample at a time.
//
// The thread copies q, k, v and dy of the head to matrices with padded rows in its part of the workspace.
// AttentionProducts computes the products (attention_products.h). The thread computes the scores of one chunk of
// queries at a time, so that the scores stay in the second-level cache.
#include "kernels/attention/attention.h"

#include <omp.h>

#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/attention/attention_products.h"
#include "kernels/attention/attention_rows_cpu.h"
#include "kernels/shared/backend.h"
#include "src/device/cpu_device.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const AttentionProducts* attention_products())

const AttentionProducts& attention_products(Isa isa) {
  return *for_isa(
      isa, [] { return plain::attention_products(); }, [] { return avx2::attention_products(); },
      [] { return avx512::attention_products(); });
}

namespace {

/// Divides a thread's part of the workspace into matrices.
class MatrixPlaces {
 public:
  explicit MatrixPlaces(float* workspace) : at_(workspace) {}
  PaddedMatrix add(std::int64_t rows, std::int64_t columns) {
    const PaddedMatrix matrix{at_, PaddedMatrix::stride_of(columns)};
    at_ += rows * matrix.stride;
    return matrix;
  }

 private:
  float* at_;
};

class AttentionCpu final : public Op {
 public:
  AttentionCpu(const AttentionParams& params, CpuDevice& device, const OpTensors& tensors)
      : device_(device),
        shape_(tensors.outputs.at(0).shape, params),
        products_(attention_products(device.isa())),
        x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        chunk_(ceil_divide(shape_.tokens, ceil_divide(shape_.tokens, most_chunk_rows))),
        floats_of_thread_(workspace_floats(!tensors.input_gradients.empty())),
        rows_(device.allocate(static_cast<std::size_t>(shape_.batch * shape_.heads * shape_.tokens) *
                              sizeof(AttentionRow))) {
    device.reserve_workspace(static_cast<std::size_t>(device.thread_count() * floats_of_thread_) * sizeof(float));
    if (tensors.input_gradients.empty()) return;
    dx_ = tensors.input_gradients.at(0);
    dy_ = tensors.output_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override {
    for_each_head([&](auto sample, auto head, float* floats) { compute_head(sample, head, floats); });
  }
  void backward(Stream& /*stream*/) override {
    if (!dx_) return;
    for_each_head([&](auto sample, auto head, float* floats) { differentiate_head(sample, head, floats); });
  }

 private:
  static constexpr std::int64_t most_chunk_rows = 96;  ///< largest number of queries with scores in the workspace
  static constexpr std::int64_t prefetched = 8;        ///< distance in rows from the copied row to the prefetched row
  enum Part { query, key, value };

  std::int64_t workspace_floats(bool training) const {
    const std::int64_t size = shape_.head_size(), tokens = shape_.tokens;
    const std::int64_t of_head = PaddedMatrix::stride_of(size), of_tokens = PaddedMatrix::stride_of(tokens);
    const std::int64_t rows_of_head = training ? 5 * tokens + chunk_ : 3 * tokens + chunk_;
    const std::int64_t rows_of_tokens = training ? 2 * (size + chunk_) : size + chunk_;
    return rows_of_head * of_head + rows_of_tokens * of_tokens;
  }

  /// Calls body(sample, head, floats) for all heads, on several threads. `floats`: the thread's part of the workspace.
  template <typename Body>
  void for_each_head(const Body& body) const {
#pragma omp parallel for schedule(static) num_threads(device_.thread_count())
    for (std::int64_t i = 0; i < shape_.batch * shape_.heads; ++i) {
      body(i / shape_.heads, i % shape_.heads,
           static_cast<float*>(device_.workspace()) + omp_get_thread_num() * floats_of_thread_);
    }
  }

  /// Returns the address of the channels of one head and one token in a tensor [batch, tokens, parts * width].
  float* channels(const Tensor& tensor, std::int64_t sample, std::int64_t token, std::int64_t head,
                  Part part = query) const {
    const std::int64_t row = tensor.shape[2];
    return static_cast<float*>(tensor.data) + (sample * shape_.tokens + token) * row + part * shape_.width +
           head * shape_.head_size();
  }
  /// Prefetches the channels of a head, which begin at `row`.
  void prefetch(const float* row) const {
    constexpr std::int64_t line_floats = 16;
    for (std::int64_t at = 0; at < shape_.head_size(); at += line_floats) __builtin_prefetch(row + at);
  }
  void read(const Tensor& from, std::int64_t sample, std::int64_t head, Part part, const PaddedMatrix& to) const {
    for (std::int64_t t = 0; t < shape_.tokens; ++t) {
      // The hardware does not prefetch short rows that are far apart.
      if (t + prefetched < shape_.tokens) prefetch(channels(from, sample, t + prefetched, head, part));
      std::copy_n(channels(from, sample, t, head, part), shape_.head_size(), to.at(t));
    }
  }
  /// Writes `count` rows of `from` to `to`: to the channels of one head in the tokens [first, first + count).
  void write(const PaddedMatrix& from, std::int64_t first, std::int64_t count, const Tensor& to, std::int64_t sample,
             std::int64_t head, Part part = query) const {
    for (std::int64_t t = 0; t < count; ++t) {
      std::copy_n(from.at(t), shape_.head_size(), channels(to, sample, first + t, head, part));
    }
  }
  /// Writes the transpose of `from` [tokens, head_size] to `to` [head_size, tokens].
  void transpose(const PaddedMatrix& from, const PaddedMatrix& to) const {
    products_.transpose(from.data, from.stride, shape_.tokens, shape_.head_size(), to.data, to.stride);
  }
  AttentionRow* rows_of(std::int64_t sample, std::int64_t head) const {
    return static_cast<AttentionRow*>(rows_.data()) + (sample * shape_.heads + head) * shape_.tokens;
  }
  /// Calls body(first query, number of queries) for each chunk of queries.
  template <typename Body>
  void for_each_chunk(const Body& body) const {
    for (std::int64_t first = 0; first < shape_.tokens; first += chunk_) {
      body(first, std::min(chunk_, shape_.tokens - first));
    }
  }
  /// Computes c = a b, or c += a b if `add` is true. a: [rows, depth], b: [depth, columns], c: [rows, columns].
  void multiply(const float* a, std::int64_t a_row, std::int64_t a_step, const PaddedMatrix& b, const PaddedMatrix& c,
                std::int64_t rows, std::int64_t columns, std::int64_t depth, bool add = false) const {
    products_.multiply({a, a_row, a_step, b.data, b.stride, c.data, c.stride, rows, columns, depth, add});
  }

  void compute_head(std::int64_t sample, std::int64_t head, float* floats) const {
    const std::int64_t tokens = shape_.tokens, size = shape_.head_size();
    MatrixPlaces places(floats);
    const PaddedMatrix q = places.add(tokens, size), k = places.add(tokens, size), v = places.add(tokens, size);
    const PaddedMatrix keys = places.add(size, tokens), scores = places.add(chunk_, tokens),
                       y = places.add(chunk_, size);
    read(x_, sample, head, query, q);
    read(x_, sample, head, key, k);
    read(x_, sample, head, value, v);
    transpose(k, keys);
    for_each_chunk([&](std::int64_t first, std::int64_t count) {
      AttentionRow* const rows = rows_of(sample, head) + first;
      multiply(q.at(first), q.stride, 1, keys, scores, count, tokens, size);
      weigh_scores(scores, count, tokens, shape_.scale(), rows);
      multiply(scores.data, scores.stride, 1, v, y, count, size, tokens);
      for (std::int64_t i = 0; i < count; ++i) multiply_row(y.at(i), size, rows[i].inverse_sum);
      write(y, first, count, y_, sample, head);
    });
  }

  void differentiate_head(std::int64_t sample, std::int64_t head, float* floats) const {
    const std::int64_t tokens = shape_.tokens, size = shape_.head_size();
    MatrixPlaces places(floats);
    const PaddedMatrix q = places.add(tokens, size), k = places.add(tokens, size), dy = places.add(tokens, size);
    const PaddedMatrix dk = places.add(tokens, size), dv = places.add(tokens, size), dq = places.add(chunk_, size);
    const PaddedMatrix keys = places.add(size, tokens), values = places.add(size, tokens);
    const PaddedMatrix scores = places.add(chunk_, tokens), gradients = places.add(chunk_, tokens);
    read(x_, sample, head, value, dv);
    transpose(dv, values);
    read(x_, sample, head, query, q);
    read(x_, sample, head, key, k);
    transpose(k, keys);
    read(dy_, sample, head, query, dy);
    for_each_chunk([&](std::int64_t first, std::int64_t count) {
      multiply(q.at(first), q.stride, 1, keys, scores, count, tokens, size);
      multiply(dy.at(first), dy.stride, 1, values, gradients, count, tokens, size);
      differentiate_weights(scores, gradients, count, tokens, shape_.scale(), rows_of(sample, head) + first);
      multiply(gradients.data, gradients.stride, 1, k, dq, count, size, tokens);
      write(dq, first, count, dx_, sample, head, query);
      const PaddedMatrix q_chunk{q.at(first), q.stride}, dy_chunk{dy.at(first), dy.stride};
      multiply(gradients.data, 1, gradients.stride, q_chunk, dk, tokens, size, count, first > 0);
      multiply(scores.data, 1, scores.stride, dy_chunk, dv, tokens, size, count, first > 0);
    });
    write(dk, 0, tokens, dx_, sample, head, key);
    write(dv, 0, tokens, dx_, sample, head, value);
  }

  CpuDevice& device_;
  AttentionShape shape_;
  const AttentionProducts& products_;
  Tensor x_, y_, dx_, dy_;
  std::int64_t chunk_;             ///< number of queries in a full chunk
  std::int64_t floats_of_thread_;  ///< number of floats of the workspace per thread
  Buffer rows_;                    ///< AttentionRow [batch, heads, tokens]
};

}  // namespace

std::unique_ptr<Op> make_attention_cpu(const AttentionParams& params, const OpContext& context,
                                       const OpTensors& tensors) {
  if (tensors.inputs.at(0).type == DType::bf16) return make_attention_bf16_cpu(params, context, tensors);
  return std::make_unique<AttentionCpu>(params, as_cpu(*context.device), tensors);
}

namespace {

class AttentionDefinition final : public OpDefinition {
 public:
  explicit AttentionDefinition(const AttentionParams& params) : params_(params) {}
  std::string_view type() const override { return "attention"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = true}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_attention_cpu(params_, context, tensors); },
        [&] { return make_attention_cuda(params_, context, tensors); });
  }

 private:
  AttentionParams params_;
};

const OpTraits attention_traits{.samples_are_independent = true};

}  // namespace

const OpType attention_op = op_type<AttentionParams, attention>("attention");

Value attention(Graph& graph, const std::string& name, Value qkv, const AttentionParams& params) {
  const Shape shape = graph.shape(qkv);
  if (shape.rank() != 3 || shape[2] % 3 != 0) {
    fail(ExitCode::failed, "attention {}: input {} is not [batch, tokens, 3 * width]", name, shape.text());
  }
  const std::int64_t width = shape[2] / 3;
  if (params.heads <= 0 || width % params.heads != 0) {
    fail(ExitCode::failed, "attention {}: {} heads do not divide the width {}", name, params.heads, width);
  }
  return graph.add_op({.name = name,
                       .definition = std::make_shared<AttentionDefinition>(params),
                       .inputs = {qkv},
                       .traits = attention_traits,
                       .type = &attention_op,
                       .attributes = attributes_of(params)},
                      {shape[0], shape[1], width});
}

}  // namespace carillon
