// Conversion, transposition and bias on a GPU, between ops and the libraries' matrix products and convolutions. CUDA
// builds only.
//
// Unless stated otherwise, each tensor is f32 or bf16. Arithmetic is float32; results are rounded to the target's type,
// to nearest, ties to even. The functions only enqueue. Tensors start at multiples of 16 bytes; `from` and `to` do not
// overlap.
#pragma once

#include <cstdint>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/compute_copy.h"

namespace carillon {

/// to[i] = from[i]; equal element counts.
void convert_cuda(const Tensor& from, const Tensor& to, Stream& stream);

/// The two sides of a transposition. The shapes of the tensors are ignored; the last extent of each side may be padded.
struct Transposition {
  Tensor from;                       ///< [rows, columns]
  ChannelPadding from_padding = {};  ///< padding of the columns
  Tensor to;                         ///< [columns, rows]
  ChannelPadding to_padding = {};    ///< padding of the rows; it is not written
};
/// to[c, r] = from[r, c].
void transpose_cuda(const Transposition& sides, std::int64_t rows, std::int64_t columns, Stream& stream);

/// y[r, c] += bias[c], then, with `relu`, y = max(y, 0); NaN stays NaN. y: [..., columns], bias: [columns] in float32.
void bias_relu_cuda(const Tensor& bias, bool relu, const Tensor& y, Stream& stream);

}  // namespace carillon
