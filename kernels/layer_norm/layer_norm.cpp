// The definition of layer_norm, and the op on a CPU. Threads process blocks of rows. A thread reads the rows of a block
// in groups that fit into the first-level cache. Therefore all passes over a row together read memory only once. bf16
// rows are converted to float32 in this cache.
#include "kernels/layer_norm/layer_norm.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "carillon/core/parallel.h"
#include "kernels/layer_norm/layer_norm_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"
#include "kernels/shared/thread_scratch.h"

namespace carillon {
namespace {

// The loops of layer_norm on a CPU over some rows of floats, for functions with CARILLON_SIMD.
//
// Sums over a row have 8 lanes: lane l sums the channels c with c % 8 = l. So the order of a sum depends neither on the
// address of the row nor on the other rows. Vectors have the width of x86-64-v3's registers. Vectors of 16 floats would
// be at most 15 % faster with AVX-512, and several times slower without AVX-512.
//
// Several rows are processed together. Their sums are independent, and backward adds the rows' terms of dgamma and
// dbeta before it loads and stores the sums. The first pass over rows reads them one after the other, as the hardware's
// prefetcher expects.
namespace layer_norm_rows {

constexpr std::size_t lanes = 8, rows_at_once = 4;

using Vector = float __attribute__((vector_size(lanes * sizeof(float))));
using UnalignedVector = float __attribute__((vector_size(lanes * sizeof(float)), aligned(alignof(float)), may_alias));

/// States which lanes of a vector are channels of the row: all lanes, or the first `count` lanes.
struct AllLanes {};
struct FirstLanes {
  std::size_t count;
};

/// Loads a vector. Sets the lanes that are not in the row to `other`.
[[gnu::always_inline]] inline void load(const float* from, AllLanes /*in_row*/, Vector& to, float /*other*/ = 0.0f) {
  to = *reinterpret_cast<const UnalignedVector*>(from);
}
[[gnu::always_inline]] inline void load(const float* from, FirstLanes in_row, Vector& to, float other = 0.0f) {
  float values[lanes];
  for (std::size_t i = 0; i < lanes; ++i) values[i] = i < in_row.count ? from[i] : other;
  load(values, AllLanes{}, to);
}
[[gnu::always_inline]] inline void store(const Vector& from, AllLanes /*in_row*/, float* to) {
  *reinterpret_cast<UnalignedVector*>(to) = from;
}
[[gnu::always_inline]] inline void store(const Vector& from, FirstLanes in_row, float* to) {
  for (std::size_t i = 0; i < in_row.count; ++i) to[i] = from[i];
}

/// Calls body(channel, lanes of the row) for each vector of a row.
template <typename Body>
[[gnu::always_inline]] inline void for_vectors(std::size_t channels, const Body& body) {
  std::size_t c = 0;
  for (; c + lanes <= channels; c += lanes) body(c, AllLanes{});
  if (c < channels) body(c, FirstLanes{channels - c});
}

/// Returns the sum of the lanes of `sums`.
[[gnu::always_inline]] inline float total(const Vector& sums) {
  Vector all = sums;
  all += __builtin_shufflevector(all, all, 4, 5, 6, 7, 0, 1, 2, 3);
  all += __builtin_shufflevector(all, all, 2, 3, 0, 1, 6, 7, 4, 5);
  all += __builtin_shufflevector(all, all, 1, 0, 3, 2, 5, 4, 7, 6);
  return all[0];
}

template <std::size_t count>
[[gnu::always_inline]] inline void find_norms(const float* x, std::size_t channels, float epsilon,
                                              RowNorm (&norms)[count]) {
  const float size = static_cast<float>(channels);
  Vector sums[count], distances[count] = {}, squares[count] = {};
  float centre[count];
  for (std::size_t k = 0; k < count; ++k) {
    Vector sum = {};
    for_vectors(
        channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
          Vector values;
          load(x + k * channels + c, in_row, values);
          sum += values;
        });
    sums[k] = sum;
  }
  for (std::size_t k = 0; k < count; ++k) centre[k] = total(sums[k]) / size;
  for_vectors(
      channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
        for (std::size_t k = 0; k < count; ++k) {
          Vector distance;
          load(x + k * channels + c, in_row, distance, centre[k]);
          distance -= centre[k];
          distances[k] += distance;
          squares[k] += distance * distance;
        }
      });
  for (std::size_t k = 0; k < count; ++k) {
    norms[k] = row_norm(centre[k], total(distances[k]), total(squares[k]), size, epsilon);
  }
}

/// gamma, beta: [channels]. norms: receives the normalisation of each row; may be null.
template <std::size_t count>
[[gnu::always_inline]] inline void forward(const float* __restrict x, std::size_t channels, float epsilon,
                                           const float* __restrict gamma, const float* __restrict beta,
                                           RowNorm* __restrict norms, float* __restrict y) {
  RowNorm of[count];
  find_norms<count>(x, channels, epsilon, of);
  if (norms != nullptr) std::copy_n(of, count, norms);
  for (std::size_t k = 0; k < count; ++k) {
    for_vectors(
        channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
          Vector values, scale, offset;
          load(x + k * channels + c, in_row, values);
          load(gamma + c, in_row, scale);
          load(beta + c, in_row, offset);
          values -= of[k].centre;
          store((values * of[k].inverse + of[k].shift) * scale + offset, in_row, y + k * channels + c);
        });
  }
}

/// Some rows of x, dy and dx: [rows, channels] each. dx is null if it is not computed.
struct GradientRows {
  const float *x, *dy;
  float* dx;
};

/// The means of g and of g xhat over a row (layer_norm.h).
[[gnu::always_inline]] inline RowGradient find_gradient(const float* x, const float* dy, std::size_t channels,
                                                        const RowNorm& of, const float* gamma) {
  Vector means = {}, slopes = {};
  for_vectors(
      channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
        Vector values, given, scale;
        load(x + c, in_row, values);
        load(dy + c, in_row, given);
        load(gamma + c, in_row, scale);
        values -= of.centre;
        given *= scale;
        means += given;
        slopes += (values * of.inverse + of.shift) * given;
      });
  const float size = static_cast<float>(channels);
  return {total(means) / size, total(slopes) / size};
}

/// Adds the terms of the rows to dgamma and dbeta, and writes dx if wants_dx is true.
template <std::size_t count, bool wants_dx>
[[gnu::always_inline]] inline void backward(const GradientRows& rows, std::size_t channels, const RowNorm* norms,
                                            const float* __restrict gamma, float* __restrict dgamma,
                                            float* __restrict dbeta) {
  RowNorm of[count];
  RowGradient gradients[count];
  std::copy_n(norms, count, of);
  for (std::size_t k = 0; wants_dx && k < count; ++k) {
    gradients[k] = find_gradient(rows.x + k * channels, rows.dy + k * channels, channels, of[k], gamma);
  }
  for_vectors(
      channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
        Vector scale, sum, product;
        load(gamma + c, in_row, scale);
        Vector row_sum = {}, row_product = {};
        for (std::size_t k = 0; k < count; ++k) {
          Vector values, given;
          load(rows.x + k * channels + c, in_row, values);
          load(rows.dy + k * channels + c, in_row, given);
          values -= of[k].centre;
          const Vector hat = values * of[k].inverse + of[k].shift;
          row_sum += given;
          row_product += hat * given;
          if constexpr (wants_dx) {
            store((scale * given - gradients[k].mean - hat * gradients[k].slope) * of[k].inverse, in_row,
                  rows.dx + k * channels + c);
          }
        }
        load(dbeta + c, in_row, sum);
        load(dgamma + c, in_row, product);
        store(sum + row_sum, in_row, dbeta + c);
        store(product + row_product, in_row, dgamma + c);
      });
}

}  // namespace layer_norm_rows

using layer_norm_rows::GradientRows;
using layer_norm_rows::rows_at_once;

CARILLON_SIMD void forward_rows(const float* x, std::size_t rows, std::size_t channels, float epsilon,
                                const float* gamma, const float* beta, RowNorm* norms, float* y) {
  const auto norms_at = [&](std::size_t row) { return norms == nullptr ? nullptr : norms + row; };
  std::size_t row = 0;
  for (; row + rows_at_once <= rows; row += rows_at_once) {
    layer_norm_rows::forward<rows_at_once>(x + row * channels, channels, epsilon, gamma, beta, norms_at(row),
                                           y + row * channels);
  }
  for (; row < rows; ++row) {
    layer_norm_rows::forward<1>(x + row * channels, channels, epsilon, gamma, beta, norms_at(row), y + row * channels);
  }
}

template <bool wants_dx>
[[gnu::always_inline]] inline void backward_all(const GradientRows& all, std::size_t rows, std::size_t channels,
                                                const RowNorm* norms, const float* gamma, float* dgamma, float* dbeta) {
  const auto from = [&](std::size_t row) {
    const std::size_t at = row * channels;
    return GradientRows{all.x + at, all.dy + at, wants_dx ? all.dx + at : nullptr};
  };
  std::size_t row = 0;
  for (; row + rows_at_once <= rows; row += rows_at_once) {
    layer_norm_rows::backward<rows_at_once, wants_dx>(from(row), channels, norms + row, gamma, dgamma, dbeta);
  }
  for (; row < rows; ++row) {
    layer_norm_rows::backward<1, wants_dx>(from(row), channels, norms + row, gamma, dgamma, dbeta);
  }
}

CARILLON_SIMD void backward_rows(const GradientRows& all, std::size_t rows, std::size_t channels, const RowNorm* norms,
                                 const float* gamma, float* dgamma, float* dbeta) {
  if (all.dx == nullptr) return backward_all<false>(all, rows, channels, norms, gamma, dgamma, dbeta);
  backward_all<true>(all, rows, channels, norms, gamma, dgamma, dbeta);
}

/// Number of rows that are processed together. x, dy and dx of these rows fit into the first-level cache in float32.
std::size_t group_rows(std::size_t channels) {
  constexpr std::size_t group_floats = 1024;
  return std::max(rows_at_once, group_floats / channels / rows_at_once * rows_at_once);
}

class LayerNormCpu final : public Op {
 public:
  LayerNormCpu(const LayerNormParams& params, const OpContext& context, const OpTensors& tensors)
      : epsilon_(params.epsilon),
        tensors_(tensors),
        channels_(static_cast<std::size_t>(tensors.inputs.at(0).shape.extents().back())),
        rows_(static_cast<std::size_t>(tensors.inputs.at(0).shape.element_count()) / channels_),
        group_(group_rows(channels_)),
        blocks_(rows_, 8 * rows_at_once),
        scratch_(*context.device, 3 * group_ * channels_ * sizeof(float)) {
    if (!context.training) return;
    norms_.resize(rows_);
    sums_.resize(2 * channels_ * blocks_.count);
  }

  void forward(Stream& /*stream*/) override {
    parallel_items(rows_, channels_, grain(rows_), [&](std::size_t first, std::size_t last) {
      for_groups(first, last - first, [&](std::size_t row, std::size_t rows, float* scratch) {
        const std::size_t at = row * channels_, count = rows * channels_;
        const float* const x = floats_at(ElementPointer(tensors_.inputs[0]) + at, count, scratch);
        write_at(ElementPointer(tensors_.outputs[0]) + at, count, scratch + group_ * channels_, [&](float* y) {
          forward_rows(x, rows, channels_, epsilon_, gamma(), tensors_.parameters[1].floats().data(),
                       norms_.empty() ? nullptr : norms_.data() + row, y);
        });
      });
    });
  }

  void backward(Stream& /*stream*/) override {
    const std::size_t grain_of_blocks = grain(blocks_.count * blocks_.per_block);
    parallel_items(blocks_.count, blocks_.per_block * channels_, grain_of_blocks,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t block = first; block < last; ++block) process_block(block);
                   });
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor& gradient = tensors_.parameter_gradients[i];
      if (gradient) add_blocks(sums_.data() + i * channels_, blocks_.count, 2 * channels_, gradient);
    }
  }

 private:
  std::size_t grain(std::size_t rows) const { return scratch_.grain(rows * channels_, elementwise_grain); }
  const float* gamma() const { return tensors_.parameters[0].floats().data(); }

  /// Calls body(first row, rows, the thread's scratch) for groups of the rows.
  template <typename Body>
  void for_groups(std::size_t first, std::size_t rows, const Body& body) const {
    float* const scratch = scratch_.mine<float>();
    for (std::size_t done = 0; done < rows; done += group_) body(first + done, std::min(group_, rows - done), scratch);
  }

  void process_block(std::size_t block) {
    float* const dgamma = sums_.data() + 2 * channels_ * block;
    float* const dbeta = dgamma + channels_;
    std::fill_n(dgamma, 2 * channels_, 0.0f);
    for_groups(blocks_.first_of(block), blocks_.rows_of(block), [&](std::size_t row, std::size_t rows, float* scratch) {
      const std::size_t at = row * channels_, count = rows * channels_, size = group_ * channels_;
      const float* const x = floats_at(ElementPointer(tensors_.inputs[0]) + at, count, scratch);
      const float* const dy = floats_at(ElementPointer(tensors_.output_gradients[0]) + at, count, scratch + size);
      const auto run = [&](float* dx) {
        backward_rows({x, dy, dx}, rows, channels_, norms_.data() + row, gamma(), dgamma, dbeta);
      };
      const Tensor& dx = tensors_.input_gradients[0];
      if (!dx) return run(nullptr);
      write_at(ElementPointer(dx) + at, count, scratch + 2 * size, run);
    });
  }

  float epsilon_;
  OpTensors tensors_;
  std::size_t channels_, rows_;
  std::size_t group_;  ///< number of rows of a group
  RowBlocks blocks_;   ///< the blocks of the backward pass
  ThreadScratch scratch_;
  std::vector<RowNorm> norms_;  ///< [rows], in training
  std::vector<float> sums_;     ///< [blocks, 2, channels]: sums for dgamma and dbeta
};

}  // namespace

std::unique_ptr<Op> make_layer_norm_cpu(const LayerNormParams& params, const OpContext& context,
                                        const OpTensors& tensors) {
  return std::make_unique<LayerNormCpu>(params, context, tensors);
}

namespace {

class LayerNormDefinition final : public OpDefinition {
 public:
  explicit LayerNormDefinition(const LayerNormParams& params, bool accumulates_dx = false)
      : params_(params), accumulates_dx_(accumulates_dx) {}
  std::string_view type() const override { return "layer_norm"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::shared_ptr<const OpDefinition> accumulating(DeviceKind device, DType /*type*/) const {
    return device == DeviceKind::cuda ? std::make_shared<LayerNormDefinition>(params_, true) : nullptr;
  }
  std::optional<int> output_shares_input(int output) const override {
    return accumulates_dx_ && output == 1 ? std::optional(0) : std::nullopt;
  }
  std::optional<int> gradient_shares_output(int /*input*/) const override {
    return accumulates_dx_ ? std::optional(1) : std::nullopt;
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!accumulates_dx_ || context.device->kind() == DeviceKind::cuda,
          "only a layer norm on a GPU can add to a gradient");
    return on_device(
        context, [&] { return make_layer_norm_cpu(params_, context, tensors); },
        [&] { return make_layer_norm_cuda(params_, accumulates_dx_, context, tensors); });
  }

 private:
  LayerNormParams params_;
  bool accumulates_dx_;
};

const OpTraits layer_norm_traits{.accumulating = trait<&LayerNormDefinition::accumulating>,
                                 .keeps_output_gradient = [](const OpDefinition&) { return true; },
                                 .samples_are_independent = true};

}  // namespace

const OpType layer_norm_op = op_type<LayerNormParams, layer_norm>("layer_norm");

Value layer_norm(Graph& graph, const std::string& name, Value x, const LayerNormParams& params) {
  const Shape shape = graph.shape(x);
  if (shape.rank() < 2) fail(ExitCode::failed, "layer_norm {}: input {} has no channels", name, shape.text());
  check(params.epsilon > 0.0f, "layer_norm requires epsilon > 0");
  const Shape channels{shape.extents().back()};
  const int gamma = graph.add_parameter({name + "/gamma", channels, {Initializer::Kind::constant, 1.0f}});
  const int beta = graph.add_parameter({name + "/beta", channels, {}});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<LayerNormDefinition>(params),
                       .inputs = {x},
                       .parameters = {gamma, beta},
                       .traits = layer_norm_traits,
                       .type = &layer_norm_op,
                       .attributes = attributes_of(params)},
                      shape);
}

}  // namespace carillon
