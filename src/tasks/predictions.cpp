#include "src/tasks/predictions.h"

#include <cstring>
#include <numeric>

#include "carillon/core/error.h"

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

void StoredSamples::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  check(outputs.size() % columns_ == 0 && targets.size() == outputs.size() / columns_ * target_bytes_,
        "outputs and targets must be of equally many samples");
  outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
}

// The result contains, sample by sample, the outputs and then the target.
std::string StoredSamples::contents() const {
  const std::size_t output_bytes = columns_ * sizeof(float);
  std::string contents(count() * (output_bytes + target_bytes_), '\0');
  char* at = contents.data();
  for (std::size_t i = 0; i < count(); ++i) {
    std::memcpy(at, outputs_.data() + i * columns_, output_bytes);
    std::memcpy(at + output_bytes, targets_.data() + i * target_bytes_, target_bytes_);
    at += output_bytes + target_bytes_;
  }
  return contents;
}

void StoredSamples::merge(std::string_view contents) {
  const std::size_t output_bytes = columns_ * sizeof(float), sample_bytes = output_bytes + target_bytes_;
  if (contents.size() % sample_bytes != 0) {
    fail(ExitCode::failed, "these bytes are not the contents of a metric with the same outputs and targets");
  }
  const std::size_t before = count(), added = contents.size() / sample_bytes;
  outputs_.resize((before + added) * columns_);
  targets_.resize((before + added) * target_bytes_);
  for (std::size_t i = 0; i < added; ++i) {
    const char* const at = contents.data() + i * sample_bytes;
    std::memcpy(outputs_.data() + (before + i) * columns_, at, output_bytes);
    std::memcpy(targets_.data() + (before + i) * target_bytes_, at + output_bytes, target_bytes_);
  }
}

}  // namespace carillon
