// Converts the outputs of an evaluation to predictions. StoredSamples stores the outputs of all samples.
//
// Probabilities from the outputs (logits) of a classification or multi-label network, in float64:
//
//   probability of class i   softmax:  exp(x_i) / sum_j exp(x_j)
//   probability of a label   sigmoid:  1 / (1 + exp(-x))
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

class Softmax {
 public:
  /// `logits`: at least one logit. All logits are finite. The logits must outlive this object.
  explicit Softmax(std::span<const float> logits);
  double probability(std::size_t i) const;
  /// Returns -log(probability(i)). The result is finite even if probability(i) is rounded to 0.
  double cross_entropy(std::size_t i) const;

 private:
  std::span<const float> logits_;
  double largest_, sum_;  ///< sum_: sum of exp(x_j - largest_)
};

/// Returns the indices of the `count` largest logits, in descending order. If there are fewer logits, returns all
/// indices. If two logits are equal, the smaller index is first.
std::vector<std::size_t> top_classes(std::span<const float> logits, std::size_t count);

/// Returns the class with the largest logit. If several logits are the largest, returns the smallest index.
std::size_t predicted_class(std::span<const float> logits);

inline double label_probability(float logit) { return 1.0 / (1.0 + std::exp(-static_cast<double>(logit))); }

/// True if the probability of the label is at least 1/2.
inline bool predicts_label(float logit) { return logit >= 0.0f; }

/// The true class of a sample, and the classes with the largest probabilities. The probabilities are in descending
/// order.
struct Prediction {
  static constexpr std::size_t max_count = 5;

  std::int32_t label = 0;
  std::array<std::int32_t, max_count> classes{};
  std::array<double, max_count> probabilities{};

  std::int32_t predicted() const { return classes[0]; }
  double confidence() const { return probabilities[0]; }
  bool is_mistake() const { return predicted() != label; }
};

/// The predictions of all samples of an evaluation.
struct Predictions {
  std::size_t class_count = 0;
  std::vector<Prediction> samples = {};

  /// Returns the number of classes in each prediction: 5, or all classes if there are fewer than 5.
  std::size_t top_count() const { return class_count < Prediction::max_count ? class_count : Prediction::max_count; }
};

/// Returns the prediction for one sample. It has the `top_count` most probable classes.
Prediction prediction_of(std::size_t label, std::span<const float> logits, std::size_t top_count);

/// Returns the `count` indices in `indices` with the smallest `key(index)`, in ascending order of the keys. If there
/// are fewer indices, returns all. If two keys are equal, the smaller index is first. Keys must not be NaN.
template <typename Key>
std::vector<std::size_t> first_by(std::vector<std::size_t> indices, std::size_t count, Key key) {
  const std::size_t kept = std::min(count, indices.size());
  std::partial_sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(kept), indices.end(),
                    [&](std::size_t a, std::size_t b) {
                      const double of_a = key(a), of_b = key(b);
                      return of_a != of_b ? of_a < of_b : a < b;
                    });
  indices.resize(kept);
  return indices;
}

/// Returns the indices of the mistakes with the largest confidence, in descending order of confidence. Returns at most
/// `count` indices.
std::vector<std::size_t> most_certain_mistakes(std::span<const Prediction> samples, std::size_t count);
/// Returns the indices of the samples with the smallest confidence, in ascending order of confidence. Returns at most
/// `count` indices.
std::vector<std::size_t> least_certain(std::span<const Prediction> samples, std::size_t count);

/// The outputs and targets of all samples of an evaluation, in the order of the records.
///
/// Metrics that need all samples at once, such as average precision, use this class. Every rank merges the samples of
/// all ranks in rank order. Therefore the order of the samples, and every sum over them, is the same for any number of
/// ranks. Each rank needs memory for the outputs and targets of all records. During the merge, it needs up to three
/// times this memory.
class StoredSamples {
 public:
  /// `outputs`: the number of outputs of one sample. `target_bytes`: the number of bytes of the target of one sample.
  /// Both are above 0.
  StoredSamples(std::size_t outputs, std::size_t target_bytes) : columns_(outputs), target_bytes_(target_bytes) {}

  std::size_t count() const { return outputs_.size() / columns_; }
  /// Returns the number of outputs per sample.
  std::size_t columns() const { return columns_; }
  std::span<const float> outputs() const { return outputs_; }
  std::span<const std::byte> targets() const { return targets_; }

  /// Same contract as Metric::add.
  void add(std::span<const float> outputs, std::span<const std::byte> targets);
  /// Same contract as Metric::contents.
  std::string contents() const;
  /// Same contract as Metric::merge. Errors: failed.
  void merge(std::string_view contents);

 private:
  std::size_t columns_, target_bytes_;
  std::vector<float> outputs_;      ///< [count, columns]
  std::vector<std::byte> targets_;  ///< [count, target_bytes]
};

}  // namespace carillon
