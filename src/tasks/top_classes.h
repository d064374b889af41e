// Top classes: the most probable classes of a sample, and their probabilities.
//
//   probability(i) = exp(x_i) / sum_j exp(x_j),  logits x, in float64
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace carillon {

class Softmax {
 public:
  /// `logits`: at least one, finite; must outlive the object.
  explicit Softmax(std::span<const float> logits);
  double probability(std::size_t i) const;

 private:
  std::span<const float> logits_;
  double largest_, sum_;  ///< sum of exp(x_j - largest)
};

/// The indices of the `count` largest logits (all if there are fewer), in descending order; of equal ones, the smaller
/// index is first.
std::vector<std::size_t> top_classes(std::span<const float> logits, std::size_t count);

}  // namespace carillon
