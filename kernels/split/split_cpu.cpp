// Split on a CPU.
#include <cstring>

#include "carillon/core/parallel.h"
#include "kernels/split/split.h"

namespace carillon {
namespace {

class SplitCpu final : public Op {
 public:
  SplitCpu(const SplitParams& params, const OpTensors& tensors)
      : tensors_(tensors), rows_(split_rows(params, tensors.inputs.at(0).shape)) {}

  void forward(Stream& /*stream*/) override {
    for_rows([&](std::int64_t row) {
      for (std::size_t k = 0; k < rows_.parts.size(); ++k) {
        std::memcpy(part_of(tensors_.outputs[k], row, k), in_row(tensors_.inputs[0], row, k), bytes(k));
      }
    });
  }

  void backward(Stream& /*stream*/) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (!dx) return;
    for_rows([&](std::int64_t row) {
      for (std::size_t k = 0; k < rows_.parts.size(); ++k) {
        const Tensor& dy = tensors_.output_gradients[k];
        if (dy) {
          std::memcpy(in_row(dx, row, k), part_of(dy, row, k), bytes(k));
        } else {
          std::memset(in_row(dx, row, k), 0, bytes(k));
        }
      }
    });
  }

 private:
  template <typename Body>
  void for_rows(const Body& body) const {
    parallel_items(static_cast<std::size_t>(rows_.rows), static_cast<std::size_t>(rows_.row_size), elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t row = first; row < last; ++row) body(static_cast<std::int64_t>(row));
                   });
  }
  std::size_t bytes(std::size_t k) const {
    return static_cast<std::size_t>(rows_.parts[k].size) * size_of(tensors_.inputs[0].type);
  }
  /// Part k of a row of x or dx.
  std::byte* in_row(const Tensor& x, std::int64_t row, std::size_t k) const {
    const std::int64_t element = row * rows_.row_size + rows_.parts[k].offset;
    return static_cast<std::byte*>(x.data) + static_cast<std::size_t>(element) * size_of(x.type);
  }
  /// A row of y_k or dy_k.
  std::byte* part_of(const Tensor& y, std::int64_t row, std::size_t k) const {
    return static_cast<std::byte*>(y.data) + static_cast<std::size_t>(row * rows_.parts[k].size) * size_of(y.type);
  }

  OpTensors tensors_;
  SplitRows rows_;
};

}  // namespace

std::unique_ptr<Op> make_split_cpu(const SplitParams& params, const OpTensors& tensors) {
  return std::make_unique<SplitCpu>(params, tensors);
}

}  // namespace carillon
