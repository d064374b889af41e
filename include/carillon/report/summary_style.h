// SummaryStyle: the tags of a run's TensorBoard summaries. They equal the tags of the reference program for each data
// set.
#pragma once

namespace carillon {

enum class SummaryStyle {
  variables,  ///< histograms `<variable>`, `gradients_on_average/<variable>`; scalars `loss` and its parts
  layers,     ///< histograms `<variable>`, `<variable>/gradients`, `<layer>/activations`; scalars `total_loss` and its
              ///< parts, `<layer>/weight_loss`, `<layer>/sparsity`; example images
};

}  // namespace carillon
