// Head fit (--fit-head): before a fine-tuning, fits the last layer to the outputs of the other layers, which do not
// change during the fit. The other layers compute their outputs once for each training record, so the fit takes about
// as long as half an epoch. A training from trained weights then begins with a good last layer, and its gradients do
// not destroy the other layers.
//
// The fit minimises the sum of the mean cross-entropy and an L2 penalty by L-BFGS. The features are standardised. The
// fit uses no random numbers. Sources: Kumar et al., "Fine-tuning can distort pretrained features and underperform
// out-of-distribution", 2022 (linear probing, then fine-tuning); Liu, Nocedal, "On the limited memory BFGS method for
// large scale optimization", 1989.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "carillon/data/dataset.h"
#include "carillon/models/network.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"

namespace carillon {

/// A linear classifier: logits = x weights + biases.
struct LinearClassifier {
  std::vector<float> weights;  ///< [features, classes]
  std::vector<float> biases;   ///< [classes]
  double accuracy = 0.0;       ///< accuracy on the samples of the fit
};

/// Fits a classifier. `features`: [samples, feature_count], row-major. `labels`: 0 to classes - 1. Calls `heartbeat`
/// regularly.
LinearClassifier fit_classifier(std::span<const float> features, std::int64_t feature_count,
                                std::span<const std::int32_t> labels, std::int64_t classes,
                                const std::function<void()>& heartbeat);

/// Fits the last layer of the tower's network to the records and prints a line on rank 0. Does nothing if the last op
/// is not a dense layer with biases, or if the features would need too much memory. Collective. Errors: as
/// Evaluator::evaluate. `network`: the tower's network for the images of `records`.
void fit_head(const Network& network, const TrainOptions& options, const Dataset& records, Tower& tower, const Mpi& mpi,
              Device& device, int decode_threads, const std::function<void()>& heartbeat);

}  // namespace carillon
