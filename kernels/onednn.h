// oneDNN's matrix product behind one call for its versions 2 and 3, whose construction of primitives differs.
#pragma once

#include <dnnl.hpp>

namespace carillon {

/// c = a b (+ bias), then ReLU if asked. `bias` may be empty.
inline dnnl::matmul onednn_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                  const dnnl::memory::desc& bias, const dnnl::memory::desc& c, bool relu) {
  dnnl::primitive_attr attributes;
  dnnl::post_ops epilogue;
#if DNNL_VERSION_MAJOR >= 3
  if (relu) epilogue.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  attributes.set_post_ops(epilogue);
  return dnnl::matmul({engine, a, b, bias, c, attributes});
#else
  if (relu) epilogue.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  attributes.set_post_ops(epilogue);
  return dnnl::matmul({{a, b, bias, c}, attributes, engine});
#endif
}

}  // namespace carillon
