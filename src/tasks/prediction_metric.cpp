#include "src/tasks/prediction_metric.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "carillon/core/error.h"
#include "src/tasks/class_samples.h"
#include "src/tasks/first_by.h"
#include "src/tasks/probabilities.h"

namespace carillon {
namespace {

bool is_valid(const Prediction& prediction, std::size_t class_count) {
  const auto is_class = [&](std::int32_t value) { return value >= 0 && static_cast<std::size_t>(value) < class_count; };
  return is_class(prediction.label) && std::ranges::all_of(prediction.classes, is_class) &&
         std::ranges::all_of(prediction.probabilities, [](double value) { return value >= 0.0 && value <= 1.0; });
}

}  // namespace

std::vector<std::size_t> most_certain_mistakes(std::span<const Prediction> samples, std::size_t count) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].is_mistake()) numbers.push_back(i);
  }
  return first_by(std::move(numbers), count, [&](std::size_t i) { return -samples[i].confidence(); });
}

std::vector<std::size_t> least_certain(std::span<const Prediction> samples, std::size_t count) {
  std::vector<std::size_t> numbers(samples.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return first_by(std::move(numbers), count, [&](std::size_t i) { return samples[i].confidence(); });
}

void PredictionMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  other_->add(outputs, targets);
  for_each_class_sample(outputs, targets, [&](std::size_t label, std::span<const float> logits) {
    Prediction& prediction = predictions_.samples.emplace_back();
    prediction.label = static_cast<std::int32_t>(label);
    const Softmax softmax(logits);
    const std::vector<std::size_t> top = top_classes(logits, predictions_.top_count());
    for (std::size_t place = 0; place < top.size(); ++place) {
      prediction.classes[place] = static_cast<std::int32_t>(top[place]);
      prediction.probabilities[place] = softmax.probability(top[place]);
    }
  });
}

// Format: the number of samples, int64; their predictions; the contents of the other metric.
std::string PredictionMetric::contents() const {
  static_assert(std::is_trivially_copyable_v<Prediction> && sizeof(Prediction) == 64);
  const std::span samples(predictions_.samples);
  const auto count = static_cast<std::int64_t>(samples.size());
  std::string bytes(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(samples.data()), samples.size_bytes());
  return bytes + other_->contents();
}

void PredictionMetric::merge(std::string_view contents) {
  const auto refuse = [] { fail(ExitCode::failed, "these bytes are not the contents of a prediction metric"); };
  std::int64_t count = 0;
  if (contents.size() < sizeof count) refuse();
  std::memcpy(&count, contents.data(), sizeof count);
  contents.remove_prefix(sizeof count);
  if (count < 0 || static_cast<std::size_t>(count) > contents.size() / sizeof(Prediction)) refuse();
  std::vector<Prediction> samples(static_cast<std::size_t>(count));
  if (!samples.empty()) std::memcpy(samples.data(), contents.data(), samples.size() * sizeof samples[0]);
  const auto is_ours = [&](const Prediction& sample) { return is_valid(sample, predictions_.class_count); };
  if (!std::ranges::all_of(samples, is_ours)) refuse();
  other_->merge(contents.substr(samples.size() * sizeof(Prediction)));
  predictions_.samples.insert(predictions_.samples.end(), samples.begin(), samples.end());
}

}  // namespace carillon
