// attention on a GPU by matrix products of cuBLASLt. The op processes the heads one after the other, and each head for
// all samples together.
//
//   forward    S = q k^T; AttentionWeights; y = P v
//   backward   S = q k^T, dP = dy v^T; AttentionScoreGradients; dv = P^T dy, dq = dS k, dk = dS^T q
//
// S and dP are float32; P and dS have the type of the operands. All four matrices are in the device's workspace. If the
// workspace is too small for the matrices of all samples, the samples are divided into groups of nearly equal size.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/shared/matrix_product_cuda.h"

namespace carillon {
namespace {

/// The division of the workspace. The first part is the workspace of the matrix products. The following parts hold S,
/// dP, P and dS of one head for a group of samples, each [samples, tokens, row_stride]. Errors: failed (the workspace
/// is too small for one sample).
struct AttentionScratch {
  static constexpr std::size_t product_bytes = std::size_t{32} << 20;

  std::int64_t tokens, row_stride;
  std::int64_t samples;  ///< largest number of samples in a group
  bool has_gradients;    ///< true: dP and dS exist
  std::byte* first;
  std::size_t element_bytes;

  AttentionScratch(const AttentionShape& shape, DType type, bool training, std::span<std::byte> workspace)
      : tokens(shape.tokens),
        row_stride((shape.tokens + 7) / 8 * 8),  // rows start at multiples of 16 bytes, because tensor cores need this
        has_gradients(training),
        first(workspace.data() + product_bytes),
        element_bytes(size_of(type)) {
    const std::size_t sample_bytes = (training ? 2 : 1) * elements_per_sample() * (sizeof(float) + element_bytes);
    const auto most = static_cast<std::int64_t>((workspace.size() - product_bytes) / sample_bytes);
    if (most == 0) {
      fail(ExitCode::failed, "attention on a GPU: {} tokens need more than the workspace of {} MiB", tokens,
           workspace.size() >> 20);
    }
    const std::int64_t groups = (shape.batch + most - 1) / most;
    samples = (shape.batch + groups - 1) / groups;
  }

  float* scores() const { return reinterpret_cast<float*>(first); }
  float* weight_gradients() const { return scores() + array_elements(); }
  std::byte* weights() const {
    return reinterpret_cast<std::byte*>(scores() + (has_gradients ? 2 : 1) * array_elements());
  }
  std::byte* score_gradients() const { return weights() + array_elements() * element_bytes; }

 private:
  std::size_t elements_per_sample() const { return static_cast<std::size_t>(tokens * row_stride); }
  std::size_t array_elements() const { return static_cast<std::size_t>(samples) * elements_per_sample(); }
};

class AttentionProductsCuda final : public Op {
 public:
  AttentionProductsCuda(const AttentionParams& params, const OpContext& context, const OpTensors& tensors)
      : shape_(tensors.outputs.at(0).shape, params),
        training_(!tensors.output_gradients.empty() && tensors.input_gradients.at(0)),
        x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        scratch_(shape_, x_.type, training_, as_cuda(*context.device).workspace()) {
    if (training_) {
      dy_ = tensors.output_gradients.at(0);
      dx_ = tensors.input_gradients.at(0);
      const auto rows = static_cast<std::size_t>(shape_.batch * shape_.heads * shape_.tokens);
      rows_ = context.device->allocate(rows * sizeof(AttentionRow));
    }
    CudaDevice& device = as_cuda(*context.device);
    for (std::int64_t first = 0; first < shape_.batch; first += scratch_.samples) {
      const std::int64_t samples = std::min(scratch_.samples, shape_.batch - first);
      const bool is_like_the_last = !groups_.empty() && groups_.back().samples == samples;
      groups_.push_back({first, samples, is_like_the_last ? groups_.back().products : products_.size()});
      if (!is_like_the_last) products_.push_back(make_products(device, context.arithmetic, samples));
    }
  }

  void forward(Stream& stream) override {
    for_heads([&](const Group& group, const Products& products, std::int64_t head) {
      products.scores.run(stream, {query(x_, group, head), key(x_, group, head), scratch_.scores()});
      with_float_type(x_.type, [&]<typename T>(std::type_identity<T>) {
        T* const weights = reinterpret_cast<T*>(scratch_.weights());
        launch(AttentionWeights<T>{rows_of(group, head), weights}, stream);
      });
      products.output.run(stream, {scratch_.weights(), value(x_, group, head), output(y_, group, head)});
    });
  }

  void backward(Stream& stream) override {
    if (!training_) return;
    for_heads([&](const Group& group, const Products& products, std::int64_t head) {
      const void* const dy = output(dy_, group, head);
      const void* const weights = scratch_.weights();
      const void* const gradients = scratch_.score_gradients();
      products.scores.run(stream, {query(x_, group, head), key(x_, group, head), scratch_.scores()});
      products.weight_gradients->run(stream, {dy, value(x_, group, head), scratch_.weight_gradients()});
      with_float_type(x_.type, [&]<typename T>(std::type_identity<T>) {
        launch(AttentionScoreGradients<T>{rows_of(group, head), scratch_.weight_gradients(),
                                          reinterpret_cast<T*>(scratch_.weights()),
                                          reinterpret_cast<T*>(scratch_.score_gradients())},
               stream);
      });
      products.values->run(stream, {weights, dy, value(dx_, group, head)});
      products.queries->run(stream, {gradients, key(x_, group, head), query(dx_, group, head)});
      products.keys->run(stream, {gradients, query(x_, group, head), key(dx_, group, head)});
    });
  }

 private:
  /// The products for a group of samples. The products of the gradients exist only in training.
  struct Products {
    MatrixProductCuda scores, output;
    std::optional<MatrixProductCuda> weight_gradients, values, queries, keys;
  };
  struct Group {
    std::int64_t first, samples;
    std::size_t products;  ///< index in products_
  };

  Products make_products(CudaDevice& device, Arithmetic arithmetic, std::int64_t samples) const {
    const std::int64_t tokens = shape_.tokens, size = shape_.head_size(), width = shape_.width;
    const std::int64_t square = tokens * scratch_.row_stride;
    const std::size_t head_bytes = static_cast<std::size_t>(size) * size_of(x_.type);
    const Tensor scores{scratch_.scores(), {}, DType::f32}, weights{scratch_.weights(), {}, x_.type};
    const auto of_x = [&](const Tensor& tensor, bool transposed = false) {
      const RowMajorMatrix matrix{transposed ? size : tokens, transposed ? tokens : size, transposed, 3 * width};
      return MatrixOperand{&tensor, matrix, 3 * tokens * width, head_bytes};
    };
    const auto of_y = [&](const Tensor& tensor) {
      return MatrixOperand{&tensor, {tokens, size, false, width}, tokens * width, head_bytes};
    };
    const auto of_scores = [&](const Tensor& tensor, bool transposed = false) {
      return MatrixOperand{&tensor, {tokens, tokens, transposed, scratch_.row_stride}, square};
    };
    const auto product = [&](const MatrixOperand& a, const MatrixOperand& b, const MatrixOperand& c) {
      return MatrixProductCuda(device, arithmetic, a, b, c, {samples, AttentionScratch::product_bytes});
    };
    Products products{product(of_x(x_), of_x(x_, true), of_scores(scores)),
                      product(of_scores(weights), of_x(x_), of_y(y_)),
                      {},
                      {},
                      {},
                      {}};
    if (!training_) return products;
    const Tensor gradients{scratch_.score_gradients(), {}, x_.type};
    const Tensor weight_gradients{scratch_.weight_gradients(), {}, DType::f32};
    products.weight_gradients = product(of_y(dy_), of_x(x_, true), of_scores(weight_gradients));
    products.values = product(of_scores(weights, true), of_y(dy_), of_x(dx_));
    products.queries = product(of_scores(gradients), of_x(x_), of_x(dx_));
    products.keys = product(of_scores(gradients, true), of_x(x_), of_x(dx_));
    return products;
  }

  template <typename Body>
  void for_heads(const Body& body) const {
    for (const Group& group : groups_) {
      for (std::int64_t head = 0; head < shape_.heads; ++head) body(group, products_[group.products], head);
    }
  }

  /// Returns the address of the first element of one head in one part (for example the keys), in the first sample of
  /// the group. `of`: a tensor [batch, tokens, parts, heads, head_size].
  void* element(const Tensor& of, const Group& group, std::int64_t parts, std::int64_t part, std::int64_t head) const {
    const std::int64_t row = group.first * shape_.tokens * parts + part;
    const std::int64_t index = row * shape_.width + head * shape_.head_size();
    return static_cast<std::byte*>(of.data) + static_cast<std::size_t>(index) * size_of(of.type);
  }
  void* query(const Tensor& x, const Group& group, std::int64_t head) const { return element(x, group, 3, 0, head); }
  void* key(const Tensor& x, const Group& group, std::int64_t head) const { return element(x, group, 3, 1, head); }
  void* value(const Tensor& x, const Group& group, std::int64_t head) const { return element(x, group, 3, 2, head); }
  void* output(const Tensor& y, const Group& group, std::int64_t head) const { return element(y, group, 1, 0, head); }

  AttentionRows rows_of(const Group& group, std::int64_t head) const {
    const std::int64_t sample_rows = shape_.heads * shape_.tokens;
    AttentionRow* const all = static_cast<AttentionRow*>(rows_.data());
    return {.scores = scratch_.scores(),
            .kept = training_ ? all + group.first * sample_rows + head * shape_.tokens : nullptr,
            .kept_stride = sample_rows,
            .samples = group.samples,
            .tokens = shape_.tokens,
            .row_stride = scratch_.row_stride,
            .scale = shape_.scale()};
  }

  AttentionShape shape_;
  bool training_;  ///< true: backward runs
  Tensor x_, y_, dx_, dy_;
  AttentionScratch scratch_;
  Buffer rows_;  ///< AttentionRow [batch, heads, tokens], in training
  std::vector<Group> groups_;
  std::vector<Products> products_;
};

}  // namespace

std::unique_ptr<Op> make_attention_products_cuda(const AttentionParams& params, const OpContext& context,
                                                 const OpTensors& tensors) {
  return std::make_unique<AttentionProductsCuda>(params, context, tensors);
}

}  // namespace carillon
