// Head fit: before a fine-tuning, fits the last layer to the outputs of all other layers, which do not change
// (--fit-head). The other layers compute their outputs once for each training record, so the fit costs about as much as
// half an epoch. With --time-budget, the fit ends after about half of the time, and may use only a random sample of the
// records. A training from trained weights then begins with a good last layer, and its gradients do not destroy
// the other layers.
//
// The fit minimises the sum of the mean cross-entropy and an L2 penalty by L-BFGS. The features are standardised. The
// fit uses no random numbers. Sources: Kumar et al., "Fine-tuning can distort pretrained features and underperform
// out-of-distribution", 2022 (linear probing, then fine-tuning); Liu, Nocedal, "On the limited memory BFGS method for
// large scale optimization", 1989.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
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
/// regularly. After a call of `is_over` that returns true, returns the best classifier so far.
LinearClassifier fit_classifier(
    std::span<const float> features, std::int64_t feature_count, std::span<const std::int32_t> labels,
    std::int64_t classes, const std::function<void()>& heartbeat,
    const std::function<bool()>& is_over = [] { return false; });

/// The latest times at which the two parts of a head fit end. Each part makes at least one step.
struct HeadFitLimits {
  std::chrono::steady_clock::time_point features;  ///< end of computing the outputs of the other layers
  std::chrono::steady_clock::time_point fit;       ///< end of the fit itself
};

struct HeadFit {
  std::int64_t records = 0;         ///< records of the fit
  double seconds_per_record = 0.0;  ///< time in which all ranks together compute the other layers' outputs for a
                                    ///< record; equal on all ranks

  /// The expected seconds in which all ranks together train on a record.
  double training_seconds_per_record() const;
};

/// Returns the passes of a fine-tuning that processes `samples` samples out of `records` records. With few records, a
/// pass has 2500 samples, because a fine-tuning needs many steps.
double fine_tuning_passes(double samples, std::int64_t records);

/// The smallest number of passes that permits the full learning rate.
inline constexpr double full_rate_passes = 2.0;

/// Returns the factor for the learning rate of a fine-tuning of this length after a head fit. At the full rate, the
/// first passes make the network worse than the head fit, and only later passes make it better again. Therefore a short
/// fine-tuning has a low rate: 1 from full_rate_passes on, otherwise (passes / full_rate_passes)^2. Measurements:
/// docs/lab-notes/2026-11-30-fine-tuning-rates.md, docs/lab-notes/2026-11-30-fine-tuning-few-pictures.md.
double fine_tuning_share(double passes);

/// True if the last op of the network is a dense layer with biases, which fit_head can fit.
bool can_fit_head(const Network& network);

/// Fits the last layer of the tower's network to the records and prints a line on rank 0. Does nothing and returns
/// nullopt if !can_fit_head(network). With `limits`, uses a random sample of the records, as large as the time permits.
/// Also uses a random sample if the features of all records would need too much memory. Collective. Errors: see
/// Evaluator::evaluate. `network`: the tower's network for the images of `records`.
std::optional<HeadFit> fit_head(const Network& network, const TrainOptions& options, const Dataset& records,
                                Tower& tower, const Mpi& mpi, Device& device, int decode_threads,
                                const std::function<void()>& heartbeat, const std::optional<HeadFitLimits>& limits);

}  // namespace carillon
