#include "kernels/shared/launch.cuh"
#include "kernels/shared/tree_sum.h"

namespace carillon {

void add_tree_leaf_cuda(const AddTreeLeaf& leaf, Stream& stream) { launch(ForEachElement{leaf, leaf.count}, stream); }

void sum_ranks_as_tree_cuda(const SumRanksAsTree& sum, Stream& stream) {
  launch(ForEachElement{sum, sum.count}, stream);
}

}  // namespace carillon
