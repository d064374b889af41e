// The CUDA form of activations.
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class ActivationCuda final : public Op {
 public:
  ActivationCuda(ActivationKind kind, const OpTensors& tensors) : kind_(kind), tensors_(tensors) {}

  void forward(Stream& stream) override {
    with_form([&]<typename T, int n, typename A>(std::type_identity<T>, std::integral_constant<int, n>, A) {
      launch(ForEachElement{ActivationForward<T, n, A>{static_cast<const T*>(tensors_.inputs[0].data),
                                                       static_cast<T*>(tensors_.outputs[0].data)},
                            count() / n},
             stream);
    });
  }

  void backward(Stream& stream) override {
    if (!tensors_.input_gradients[0]) return;
    with_form([&]<typename T, int n, typename A>(std::type_identity<T>, std::integral_constant<int, n>, A) {
      launch(ForEachElement{ActivationBackward<T, n, A>{static_cast<const T*>(tensors_.inputs[0].data),
                                                        static_cast<const T*>(tensors_.output_gradients[0].data),
                                                        static_cast<T*>(tensors_.input_gradients[0].data)},
                            count() / n},
             stream);
    });
  }

 private:
  std::int64_t count() const { return tensors_.inputs[0].shape.element_count(); }

  /// body(type of the elements, elements of a pack, function object)
  template <typename Body>
  void with_form(const Body& body) const {
    with_float_type(tensors_.inputs[0].type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(
          count(), [&](auto n) { with_smooth_activation(kind_, [&](auto activation) { body(type, n, activation); }); });
    });
  }

  ActivationKind kind_;
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_activation_cuda(ActivationKind kind, const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<ActivationCuda>(kind, tensors);
}

}  // namespace carillon
