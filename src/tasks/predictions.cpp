#include "src/tasks/predictions.h"

#include <numeric>

namespace carillon {
namespace {

std::vector<std::size_t> indices_of(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

}  // namespace

Softmax::Softmax(std::span<const float> logits)
    : logits_(logits), largest_(*std::ranges::max_element(logits)), sum_(0.0) {
  for (const float logit : logits) sum_ += std::exp(logit - largest_);
}

double Softmax::probability(std::size_t i) const { return std::exp(logits_[i] - largest_) / sum_; }

double Softmax::cross_entropy(std::size_t i) const { return std::log(sum_) - (logits_[i] - largest_); }

std::vector<std::size_t> top_classes(std::span<const float> logits, std::size_t count) {
  std::vector<std::size_t> order = indices_of(logits.size());
  const std::size_t kept = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
      [&](std::size_t a, std::size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  order.resize(kept);
  return order;
}

std::size_t predicted_class(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

Prediction prediction_of(std::size_t label, std::span<const float> logits, std::size_t top_count) {
  Prediction prediction{.label = static_cast<std::int32_t>(label)};
  const Softmax softmax(logits);
  const std::vector<std::size_t> top = top_classes(logits, top_count);
  for (std::size_t place = 0; place < top.size(); ++place) {
    prediction.classes[place] = static_cast<std::int32_t>(top[place]);
    prediction.probabilities[place] = softmax.probability(top[place]);
  }
  return prediction;
}

std::vector<std::size_t> most_certain_mistakes(std::span<const Prediction> samples, std::size_t count) {
  std::vector<std::size_t> mistakes = indices_of(samples.size());
  std::erase_if(mistakes, [&](std::size_t i) { return !samples[i].is_mistake(); });
  return first_by(std::move(mistakes), count, [&](std::size_t i) { return -samples[i].confidence(); });
}

std::vector<std::size_t> least_certain(std::span<const Prediction> samples, std::size_t count) {
  return first_by(indices_of(samples.size()), count, [&](std::size_t i) { return samples[i].confidence(); });
}

}  // namespace carillon
