// layer_norm on a CPU. Threads process blocks of rows. The rows of a block are read in groups that fit into the
// first-level cache, so that all passes over a row together read memory once. bf16 rows are converted to float32 in
// this cache.
#include <algorithm>
#include <vector>

#include "carillon/core/parallel.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_rows_cpu.h"
#include "kernels/shared/convert_cpu.h"
#include "kernels/shared/row_blocks_cpu.h"
#include "kernels/shared/thread_scratch.h"

namespace carillon {
namespace {

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

/// Number of rows that are processed together. Their x, dy and dx in float32 fit into the first-level cache.
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
  std::size_t group_;  ///< rows of a group
  RowBlocks blocks_;   ///< blocks of the backward pass
  ThreadScratch scratch_;
  std::vector<RowNorm> norms_;  ///< [rows], in training
  std::vector<float> sums_;     ///< [blocks, 2, channels]: sums for dgamma and dbeta
};

}  // namespace

std::unique_ptr<Op> make_layer_norm_cpu(const LayerNormParams& params, const OpContext& context,
                                        const OpTensors& tensors) {
  return std::make_unique<LayerNormCpu>(params, context, tensors);
}

}  // namespace carillon
