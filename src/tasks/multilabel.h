// Multi-label classification: the task that answers n yes-no questions for each sample, and its metric.
//
//   target   uint8 [n], 1: the label applies, 0: it does not
//   output   n logits; sigma(logit) is the probability of the label
//   loss     binary cross-entropy with logits, mean over batch and labels (kernels/mean_loss)
//   metric   MultilabelMetric
//   score    mean_average_precision
//
// A label is predicted if its probability is at least 1/2.
//
//   average precision of a label   sum over thresholds of (R_k - R_(k-1)) P_k, from the highest threshold downwards;
//                                  P_k, R_k: precision and recall of "logit >= threshold k"
//   mean average precision         mean over the labels that apply to at least one sample
//   F1 of a label                  2 tp / (2 tp + fp + fn); 0 if the label has no sample and no prediction
//   macro F1                       mean of the F1 of all labels
//   micro F1                       F1 of the counts, each summed over all labels
//
// The scores are defined as in scikit-learn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/tasks/metric.h"
#include "carillon/tasks/task.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/predictions.h"

namespace carillon {

/// Makes the task for `labels` labels. Errors: failed (`labels` is not positive).
Task multilabel_task(std::int64_t labels);

/// The results of one label.
struct LabelResult {
  ClassCounts counts;                       ///< `support` is the number of samples to which the label applies
  std::optional<double> average_precision;  ///< nullopt: the label applies to no sample
  double best_threshold = 0.5;  ///< the threshold with the highest F1, if the label is predicted from this probability
                                ///< on
  double best_f1 = 0.0;         ///< F1 at that threshold
};

/// Outputs: logits, [samples, labels]. Targets: uint8 [labels], 0 or 1.
class MultilabelMetric : public Metric {
 public:
  explicit MultilabelMetric(std::size_t labels) : samples_(labels, labels) {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override;
  std::string contents() const override { return samples_.contents(); }
  void merge(std::string_view contents) override;
  /// The names are "mean_average_precision", "macro_f1", "micro_f1" and "binary_cross_entropy". Logs name the last
  /// score "loss".
  std::vector<Score> scores() const override;
  /// For example "mean average precision = 0.812 (20 labels, 4952 records)".
  std::string text() const override;
  std::vector<std::string> other_texts() const override;
  /// Columns "positives", "predicted", "correct", "precision", "recall", "f1", "average_precision", "best_threshold"
  /// and "best_f1" (LabelResult).
  ScoreTable table() const override;

  const StoredSamples& samples() const { return samples_; }
  /// Returns the mean cross-entropy of the labels of sample `i`.
  double cross_entropy(std::size_t i) const;
  /// Returns one element for each label.
  const std::vector<LabelResult>& labels() const;

 private:
  StoredSamples samples_;
  mutable std::vector<LabelResult> results_;  ///< the results for `samples_`; empty: not computed yet
};

}  // namespace carillon
