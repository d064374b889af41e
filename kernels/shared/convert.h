// Element types, transposition and bias on a GPU: what lies between ops and the libraries' matrix products and
// convolutions. CUDA builds only.
//
// Tensors are f32 or bf16 each for itself where nothing else is said, arithmetic is float32; a value that the target
// cannot hold is rounded to the nearest, ties to even. The functions only enqueue. Tensors start at multiples of
// 16 bytes; `from` and `to` do not overlap.
#pragma once

#include <cstdint>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/compute_copy.h"

namespace carillon {

/// to[i] = from[i]; as many elements.
void convert_cuda(const Tensor& from, const Tensor& to, Stream& stream);

/// Two sides of a transposition, whatever shapes the tensors name; the last extent of each may be padded.
struct Transposition {
  Tensor from;                       ///< [rows, columns]
  ChannelPadding from_padding = {};  ///< of the columns
  Tensor to;                         ///< [columns, rows]
  ChannelPadding to_padding = {};    ///< of the rows; what is added is not written
};
/// to[c, r] = from[r, c].
void transpose_cuda(const Transposition& sides, std::int64_t rows, std::int64_t columns, Stream& stream);

/// y[r, c] += bias[c], then 0 in place of what is negative with `relu`; NaN stays. y: [..., columns], bias: [columns]
/// in float32.
void bias_relu_cuda(const Tensor& bias, bool relu, const Tensor& y, Stream& stream);

}  // namespace carillon
