// Probabilities: what the outputs (logits) of a classification and of a multi-label network mean. In float64.
//
//   of class i   softmax:  exp(x_i) / sum_j exp(x_j)
//   of a label   sigmoid:  1 / (1 + exp(-x))
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace carillon {

class Softmax {
 public:
  /// `logits`: at least one, finite; must outlive the object.
  explicit Softmax(std::span<const float> logits);
  double probability(std::size_t i) const;
  /// -log(probability(i)), also of a probability that is rounded to 0.
  double cross_entropy(std::size_t i) const;

 private:
  std::span<const float> logits_;
  double largest_, sum_;  ///< sum of exp(x_j - largest)
};

/// The indices of the `count` largest logits (all if there are fewer), in descending order; of equal ones, the smaller
/// index is first.
std::vector<std::size_t> top_classes(std::span<const float> logits, std::size_t count);

inline double label_probability(float logit) { return 1.0 / (1.0 + std::exp(-static_cast<double>(logit))); }

/// Whether the label's probability is at least 1/2.
inline bool predicts_label(float logit) { return logit >= 0.0f; }

}  // namespace carillon
