// Wrappers of oneDNN's matrix product and convolutions. Versions 2 and 3 of oneDNN construct primitives in different
// ways; the wrappers have one interface for both versions. Carillon does not use oneDNN's ReLU, because it turns NaN
// into 0 (relu_in_place).
#pragma once

#include <dnnl.hpp>

#include "carillon/core/error.h"
#include "carillon/core/tensor.h"

namespace carillon {

inline dnnl::memory::data_type onednn_type(DType type) {
  if (type == DType::bf16) return dnnl::memory::data_type::bf16;
  check(type == DType::f32, "oneDNN requires f32 or bf16");
  return dnnl::memory::data_type::f32;
}

/// Makes a primitive use scratch memory from the caller (DNNL_ARG_SCRATCHPAD). If a primitive used oneDNN's own scratch
/// memory, only the thread that creates the primitive could run it.
inline dnnl::primitive_attr with_callers_scratch(dnnl::primitive_attr attributes) {
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// Makes the product c = a b (+ bias). `bias` may be empty.
inline dnnl::matmul onednn_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                  const dnnl::memory::desc& bias, const dnnl::memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul({engine, a, b, bias, c});
#else
  return dnnl::matmul({{a, b, bias, c}, engine});
#endif
}

/// Makes a convolution dst = src * weights + bias. The descriptions of its tensors determine the convolution. `bias`
/// may be empty. If a format is `any`, the primitive chooses the format. Any thread may run the primitive, with scratch
/// memory from the caller.
struct OnednnConvolution {
  dnnl::memory::desc src, weights, bias, dst;
  dnnl::memory::dims strides, dilations, padding_before, padding_after;

  static constexpr auto direct = dnnl::algorithm::convolution_direct;
  using Forward = dnnl::convolution_forward::primitive_desc;
  using BackwardWeights = dnnl::convolution_backward_weights::primitive_desc;
  using BackwardData = dnnl::convolution_backward_data::primitive_desc;

  Forward forward(const dnnl::engine& engine) const {
#if DNNL_VERSION_MAJOR >= 3
    return {engine,        dnnl::prop_kind::forward_training,
            direct,        src,
            weights,       bias,
            dst,           strides,
            dilations,     padding_before,
            padding_after, with_callers_scratch({})};
#else
    return {{dnnl::prop_kind::forward_training, direct, src, weights, bias, dst, strides, dilations, padding_before,
             padding_after},
            with_callers_scratch({}),
            engine};
#endif
  }
  /// `Pass`: BackwardData or BackwardWeights. BackwardWeights omits the bias. Reason: if the input is narrow, oneDNN's
  /// sum for the bias takes as long as the gradient of the weights.
  template <typename Pass>
  Pass backward(const dnnl::engine& engine, const Forward& hint) const {
#if DNNL_VERSION_MAJOR >= 3
    return {engine,
            direct,
            src,
            weights,
            dst,
            strides,
            dilations,
            padding_before,
            padding_after,
            hint,
            with_callers_scratch({})};
#else
    return {{direct, src, weights, dst, strides, dilations, padding_before, padding_after},
            with_callers_scratch({}),
            engine,
            hint};
#endif
  }
};

}  // namespace carillon
