// SummaryStyle: under which tags a run's summaries go to TensorBoard, as the reference program of each data set has
// them.
#pragma once

namespace carillon {

enum class SummaryStyle {
  variables,  ///< histograms `<variable>`, `gradients_on_average/<variable>`; scalars `loss` and its parts
  layers,     ///< histograms `<variable>`, `<variable>/gradients`, `<layer>/activations`; scalars `total_loss` and its
              ///< parts, `<layer>/weight_loss`, `<layer>/sparsity`; example images
};

}  // namespace carillon
