// ElementwiseMap: computes y[i] = f(a[i]) or y[i] = f(a[i], b[i]). This file also has the CUDA kernel for all
// element-wise ops, and declares the loop on a CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/op.h"
#include "kernels/elementwise/functions.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// Computes y = f(x) for a functor of functions.h.
template <typename F>
struct ValueOf {
  static constexpr bool is_expensive = F::is_expensive;
  F function = {};
  CARILLON_HOST_DEVICE float operator()(float x) const { return function.value(x); }
};

/// Computes dx from dy and from the tensor that the functor's gradient reads.
template <typename F>
struct GradientOf {
  static constexpr bool is_expensive = F::is_expensive;
  F function = {};
  CARILLON_HOST_DEVICE float operator()(float read, float dy) const { return function.gradient(read, dy); }
};

// Clang 16 does not deduce the template arguments of aggregates.
template <typename F>
ValueOf(F) -> ValueOf<F>;
template <typename F>
GradientOf(F) -> GradientOf<F>;

struct Sum {
  static constexpr bool is_expensive = false;
  CARILLON_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};

struct SumWithRelu {
  static constexpr bool is_expensive = false;
  CARILLON_HOST_DEVICE float operator()(float a, float b) const { return Relu::value(a + b); }
};

template <typename F>
inline constexpr bool is_unary = std::is_invocable_v<F, float>;

/// Returns the variant of `function` for results of type T (float or Bf16).
template <typename T, typename F>
[[gnu::always_inline]] inline F functor_for(const F& function) {
  return function;
}
template <typename T, typename F>
[[gnu::always_inline]] inline auto functor_for(const ValueOf<F>& value) {
  return ValueOf{function_for<T>(value.function)};
}
template <typename T, typename F>
[[gnu::always_inline]] inline auto functor_for(const GradientOf<F>& gradient) {
  return GradientOf{function_for<T>(gradient.function)};
}

/// Linear functions need no GradientOf, because ValueOf also computes dx.
using ElementwiseFunction =
    std::variant<Sum, SumWithRelu, ValueOf<Identity>, ValueOf<Scale>, ValueOf<Shift>, ValueOf<Relu>, GradientOf<Relu>,
                 ValueOf<Gelu>, GradientOf<Gelu>, ValueOf<Silu>, GradientOf<Silu>, ValueOf<Sigmoid>,
                 GradientOf<Sigmoid>, ValueOf<HardSigmoid>, GradientOf<HardSigmoid>, ValueOf<HardSwish>,
                 GradientOf<HardSwish>, ValueOf<Clip>, GradientOf<Clip>, ValueOf<LeakyRelu>, GradientOf<LeakyRelu>,
                 ValueOf<Tanh>, GradientOf<Tanh>, ValueOf<Exp>, GradientOf<Exp>, ValueOf<Sqrt>, GradientOf<Sqrt>,
                 ValueOf<Reciprocal>, GradientOf<Reciprocal>, ValueOf<Erf>, GradientOf<Erf>>;

/// Calls body(f) with the function that the variant holds. The function is inlined, so that CARILLON_SIMD callers
/// vectorise it.
template <typename Body, typename... F>
[[gnu::always_inline]] inline void with_function(const std::variant<F...>& function, const Body& body) {
  const auto call_if_held = [&](const auto* held) __attribute__((always_inline)) {
    if (held != nullptr) body(*held);
  };
  (call_if_held(std::get_if<F>(&function)), ...);
}

/// The CUDA kernel: each thread maps a pack of n neighbouring elements. T: float or Bf16. `F`: one of
/// ElementwiseFunction.
template <typename T, int n, typename F>
struct MapPack {
  F function;
  const T *a = nullptr, *b = nullptr;  ///< b: not used if F is unary
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    Pack<float, n> values = load_floats<n>(a + i * n);
    if constexpr (is_unary<F>) {
      for (int k = 0; k < n; ++k) values.at[k] = function(values.at[k]);
    } else {
      const Pack<float, n> second = load_floats<n>(b + i * n);
      for (int k = 0; k < n; ++k) values.at[k] = function(values.at[k], second.at[k]);
    }
    store_floats(values, y + i * n);
  }
};

/// The tensors have equal element counts and the same type, f32 or bf16. y may be the memory of a or b.
struct ElementwiseMap {
  ElementwiseFunction function;
  Tensor a, b, y;  ///< b: a tensor without data if the function is unary
};
/// Computes the maps one after another, in blocks of elements, so that a map finds the results of the previous map in
/// the cache. The tensors of all maps have equal element counts.
void map_cpu(std::span<const ElementwiseMap> maps);
/// Enqueues the map. Tensors start at multiples of 16 bytes.
void map_cuda(const ElementwiseMap& map, Stream& stream);
/// The maps of an op. `backward` is empty if no gradient is needed.
struct ElementwiseMaps {
  std::vector<ElementwiseMap> forward, backward;
};
std::unique_ptr<Op> make_elementwise_op(const OpContext& context, const ElementwiseMaps& maps);
/// Makes an op that, in backward, also sums the columns of dx and writes the sums to `sums`, [columns]. `backward`: the
/// gradient of an activation that reads its input; it runs once per step.
std::unique_ptr<Op> make_activation_with_sums_cuda(Device& device, const ElementwiseMap& forward,
                                                   const ElementwiseMap& backward, const Tensor& sums);

/// Computes y = max(y, 0) on a CPU. NaN stays NaN; oneDNN's ReLU would turn it into 0.
inline void relu_in_place(const Tensor& y) {
  const ElementwiseMap map{ValueOf<Relu>{}, y, {}, y};
  map_cpu({&map, 1});
}

}  // namespace carillon
