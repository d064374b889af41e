// Element-wise ops on a GPU: the maps, and an activation that also computes the gradient of the biases of the op before
// it.
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/gradient_sums.h"
#include "kernels/shared/launch.cuh"

namespace carillon {

void map_cuda(const ElementwiseMap& map, Stream& stream) {
  const std::int64_t count = map.y.shape.element_count();
  with_float_type(map.y.type, [&]<typename T>(std::type_identity<T>) {
    with_pack_size<T>(count, [&]<int n>(std::integral_constant<int, n>) {
      with_function(map.function, [&](const auto& function) {
        auto functor = functor_for<T>(function);
        const MapPack<T, n, decltype(functor)> kernel{functor, static_cast<const T*>(map.a.data),
                                                      static_cast<const T*>(map.b.data), static_cast<T*>(map.y.data)};
        launch(ForEachElement{kernel, count / n}, stream);
      });
    });
  });
}

namespace {

/// Calls body(kernel) with the kernel for the tensors.
template <typename Body>
void with_kernel(const ElementwiseMap& map, const Tensor& sums, const Body& body) {
  with_float_type(map.y.type, [&]<typename T>(std::type_identity<T>) {
    const std::int64_t columns = sums.shape[0];
    with_pack_size<T>(columns, [&]<int n>(std::integral_constant<int, n>) {
      with_function(map.function, [&]<typename F>(const F& function) {
        if constexpr (is_unary<F> || !F::is_expensive) {
          fail(ExitCode::failed, "column sums require the gradient of an activation that reads its input");
        } else {
          const auto functor = functor_for<T>(function);
          using Functor = std::remove_const_t<decltype(functor)>;
          body(divided(GradientSums<T, n, Functor>{.function = functor,
                                                   .read = static_cast<const T*>(map.a.data),
                                                   .dy = static_cast<const T*>(map.b.data),
                                                   .dz = static_cast<T*>(map.y.data),
                                                   .db = static_cast<float*>(sums.data),
                                                   .rows = map.y.shape.element_count() / columns,
                                                   .columns = columns}));
        }
      });
    });
  });
}

class ActivationWithSums final : public Op {
 public:
  ActivationWithSums(Device& device, const ElementwiseMap& forward, const ElementwiseMap& backward, const Tensor& sums)
      : forward_(forward), backward_(backward), sums_(sums) {
    with_kernel(backward_, sums_, [&](const auto& kernel) { memory_.allocate(device, kernel); });
  }

  void forward(Stream& stream) override { map_cuda(forward_, stream); }
  void backward(Stream& stream) override {
    with_kernel(backward_, sums_, [&](const auto& kernel) { launch(memory_.attached(kernel), stream); });
  }

 private:
  ElementwiseMap forward_, backward_;
  Tensor sums_;
  GradientSumsMemory memory_;
};

}  // namespace

std::unique_ptr<Op> make_activation_with_sums_cuda(Device& device, const ElementwiseMap& forward,
                                                   const ElementwiseMap& backward, const Tensor& sums) {
  return std::make_unique<ActivationWithSums>(device, forward, backward, sums);
}

}  // namespace carillon
