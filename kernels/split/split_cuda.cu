// Split on a GPU.
#include <numeric>

#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/split/split.h"
#include "kernels/split/split_kernels.h"

namespace carillon {
namespace {

class SplitCuda final : public Op {
 public:
  SplitCuda(const SplitParams& params, const OpTensors& tensors)
      : tensors_(tensors), rows_(split_rows(params, tensors.inputs.at(0).shape)) {
    for (const SplitRows::Part& part : rows_.parts) common_size_ = std::gcd(common_size_, part.size);
  }

  void forward(Stream& stream) override {
    for_parts([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>, std::size_t k) {
      const SplitForward<T, n> kernel{place_of(k), static_cast<const T*>(tensors_.inputs[0].data),
                                      static_cast<T*>(tensors_.outputs[k].data)};
      launch(ForEachElement{kernel, rows_.rows * rows_.parts[k].size / n}, stream);
    });
  }

  void backward(Stream& stream) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (!dx) return;
    for_parts([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>, std::size_t k) {
      const SplitBackward<T, n> kernel{place_of(k), static_cast<const T*>(tensors_.output_gradients[k].data),
                                       static_cast<T*>(dx.data)};
      launch(ForEachElement{kernel, rows_.rows * rows_.parts[k].size / n}, stream);
    });
  }

 private:
  PartOfRows place_of(std::size_t k) const { return {rows_.row_size, rows_.parts[k].offset, rows_.parts[k].size}; }

  /// Calls body(type of the elements, elements per pack, k) for each part.
  template <typename Body>
  void for_parts(const Body& body) const {
    with_float_type(tensors_.inputs[0].type, [&]<typename T>(std::type_identity<T> element) {
      with_pack_size<T>(common_size_, [&](auto n) {
        for (std::size_t k = 0; k < rows_.parts.size(); ++k) body(element, n, k);
      });
    });
  }

  OpTensors tensors_;
  SplitRows rows_;
  std::int64_t common_size_ = 0;  ///< greatest common divisor of the sizes; it divides the offsets, too
};

}  // namespace

std::unique_ptr<Op> make_split_cuda(const SplitParams& params, const OpTensors& tensors) {
  return std::make_unique<SplitCuda>(params, tensors);
}

}  // namespace carillon
