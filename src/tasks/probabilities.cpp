#include "src/tasks/probabilities.h"

#include <algorithm>
#include <numeric>

namespace carillon {

Softmax::Softmax(std::span<const float> logits)
    : logits_(logits), largest_(*std::ranges::max_element(logits)), sum_(0.0) {
  for (const float logit : logits) sum_ += std::exp(logit - largest_);
}

double Softmax::probability(std::size_t i) const { return std::exp(logits_[i] - largest_) / sum_; }

double Softmax::cross_entropy(std::size_t i) const { return std::log(sum_) - (logits_[i] - largest_); }

std::vector<std::size_t> top_classes(std::span<const float> logits, std::size_t count) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t kept = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
      [&](std::size_t a, std::size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  order.resize(kept);
  return order;
}

}  // namespace carillon
