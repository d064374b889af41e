// attention on a GPU by matrix products, in every arithmetic and with every head size.
#pragma once

#include "kernels/attention/attention.h"

namespace carillon {

/// Tensors: as make_attention_cuda. Errors: failed (the scores of one head and sample do not fit into the device's
/// workspace).
std::unique_ptr<Op> make_attention_products_cuda(const AttentionParams& params, const OpContext& context,
                                                 const OpTensors& tensors);

}  // namespace carillon
