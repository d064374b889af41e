// A convolution with windows that tile its input, on a GPU (patch_kernels.h).
#include "kernels/conv2d/patch_kernels.h"
#include "kernels/dense/dense.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class PatchProductCuda final : public Op {
 public:
  PatchProductCuda(const Conv2dGeometry& geometry, const OpContext& context, const OpTensors& tensors)
      : geometry_(geometry), x_(tensors.inputs.at(0)) {
    if (!tensors.input_gradients.empty()) dx_ = tensors.input_gradients[0];
    const Shape &weights = tensors.parameters.at(0).shape, &y = tensors.outputs.at(0).shape;
    check(windows_tile_input(geometry) && x_.shape[3] == weights[2],
          "a product of patches requires windows that tile images without padding");
    const std::int64_t filters = weights[3], in = weights.element_count() / filters;
    OpTensors product = tensors;
    product.parameters[0].shape = {in, filters};
    if (geometry.vertical.window > 1 || geometry.horizontal.window > 1) {
      check_index_limit("conv2d", x_.shape.element_count());
      patches_ = {nullptr, {y.element_count() / filters, in}, x_.type};
      memory_ = context.device->allocate(patches_.bytes());
      patches_.data = memory_.data();
      product.inputs[0] = patches_;
      if (dx_) product.input_gradients[0] = patches_;
    }
    product_ = make_dense_cuda(geometry.relu, context, product, ComputeCopyFormat::filter_major);
  }

  void forward(Stream& stream) override {
    if (patches_) {
      with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
        launch(ForEachElement{GatherPatches<T, n>{tiling(n), static_cast<const T*>(x_.data),
                                                  static_cast<T*>(patches_.data)},
                              x_.shape.element_count() / n},
               stream);
      });
    }
    product_->forward(stream);
  }

  void backward(Stream& stream) override {
    product_->backward(stream);
    if (!patches_ || !dx_) return;
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch(ForEachElement{ScatterPatches<T, n>{tiling(n), static_cast<const T*>(patches_.data),
                                                 static_cast<T*>(dx_.data)},
                            dx_.shape.element_count() / n},
             stream);
    });
  }

 private:
  std::int64_t channels() const { return x_.shape[3]; }
  PatchTiling tiling(int pack) const { return patch_tiling(geometry_, channels(), pack); }

  /// Calls body(type of the elements, elements per pack).
  template <typename Body>
  void with_form(const Body& body) const {
    with_float_type(x_.type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(patch_pack_extent(geometry_, channels()), [&](auto n) { body(type, n); });
    });
  }

  Conv2dGeometry geometry_;
  Tensor x_, dx_;
  Tensor patches_;  ///< has no data if windows are one pixel
  Buffer memory_;   ///< memory of the patches
  std::unique_ptr<Op> product_;
};

}  // namespace

std::unique_ptr<Op> make_patch_product_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                            const OpTensors& tensors) {
  return std::make_unique<PatchProductCuda>(geometry, context, tensors);
}

}  // namespace carillon
