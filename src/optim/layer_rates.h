// Layer-wise decay of the learning rate: layers near the input learn slower than the last one.
//
//   rate of layer l = decay^(L - l)      l = 0 ... L
//
// The layers of a network with blocks: 0 is all that is before the first block (stem, patches, tokens); then each block
// with what is between it and the block before; L is all that is after the last block. Source: Bao, Dong, Piao, Wei,
// "BEiT: BERT pre-training of image transformers", 2022.
#pragma once

#include <vector>

#include "carillon/graph/parameters.h"

namespace carillon {

/// The factor of each variable's learning rate. `variables`: in the order of the network. Errors: usage (decay is not 1
/// and the network has no blocks: no name has a part "block1").
std::vector<double> layer_rates(double decay, const std::vector<ParameterSpec>& variables);

}  // namespace carillon
