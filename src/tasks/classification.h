// Classification: the task that assigns each sample to one of n classes.
//
//   target   int32 [], 0 .. n - 1
//   output   n logits
//   metric   src/tasks/classification_metric.h
//   loss     softmax cross-entropy (kernels/softmax_cross_entropy), named "cross_entropy", with optional class weights
//            and focal loss
//   groups   the classes
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/tasks/task.h"

namespace carillon {

struct ClassificationSettings {
  std::int64_t classes = 0;
  float label_smoothing = 0.0f;            ///< share of each target that is spread evenly over all classes, 0 to 1
  float focal_gamma = 0.0f;                ///< exponent of focal loss, at least 0
  bool balances_weights = false;           ///< true: compute class weights that balance the training records
  std::vector<double> class_weights = {};  ///< [classes] given weights, used instead of balanced weights; empty: none
};

/// Makes the task. Errors: failed (`classes` is not positive, or class_weights has the wrong size).
Task classification_task(const ClassificationSettings& settings);

// Class weights: the weight that each class has in the loss (kernels/softmax_cross_entropy).
//
//   balanced   w[c] = N / (K n[c])             N: records, K: classes with records, n[c]: records of class c
//   given      w[c] = v[c] N / (sum over k of n[k] v[k])                             v: the given weights
//
// The mean of the weights over the training records is 1. Therefore weights do not change the mean size of the loss and
// of its gradients, and the learning rate need not change. With `balanced`, a class without records has weight 0.
// Source of `balanced`: scikit-learn's compute_class_weight.

/// Counts the records of each class. `targets`: [records] int32, each from 0 to classes - 1.
std::vector<std::int64_t> class_counts(std::span<const std::byte> targets, std::int64_t classes);

/// Returns the weights by the formula `balanced` above. Requires at least one record.
std::vector<float> balanced_class_weights(std::span<const std::int64_t> counts);

/// Scales the weights in `given` by the formula `given` above. Errors: data (all records have weight 0, or a weight is
/// too large).
std::vector<float> scaled_class_weights(std::span<const double> given, std::span<const std::int64_t> counts);

/// Reads weights from a CSV file (src/core/text_file.h): a line "class,weight", then a line for each class, in any
/// order. The field "class" is the name of a class. If no class has this name, the field is the number of a class, from
/// 0. A weight is a number of at least 0. `class_names`: [class]; empty: the names are unknown. Errors: data (the
/// message names file and line), no_input, io.
std::vector<double> read_class_weights(const std::string& path, std::int64_t classes,
                                       std::span<const std::string> class_names);

}  // namespace carillon
