#include "src/tasks/cross_entropy_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "carillon/core/error.h"
#include "src/tasks/class_samples.h"
#include "src/tasks/probabilities.h"

namespace carillon {
namespace {

constexpr std::int64_t one = std::int64_t{1} << 40;  ///< 1 as a fraction

}  // namespace

void FixedPointMean::carry() {
  whole_ += fraction_ / one;
  fraction_ %= one;
}

void FixedPointMean::add(double number) {
  if (!(number < static_cast<double>(one))) number = static_cast<double>(one);  // also NaN
  number = std::max(number, 0.0);
  const double whole = std::floor(number);
  whole_ += static_cast<std::int64_t>(whole);
  fraction_ += std::llround((number - whole) * static_cast<double>(one));
  count_ += 1;
  carry();
}

void FixedPointMean::add(const FixedPointMean& other) {
  whole_ += other.whole_;
  fraction_ += other.fraction_;
  count_ += other.count_;
  carry();
}

double FixedPointMean::value() const {
  const double sum = static_cast<double>(whole_) + static_cast<double>(fraction_) / static_cast<double>(one);
  return sum / static_cast<double>(count_);
}

void CrossEntropyMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  counts_->add(outputs, targets);
  for_each_class_sample(outputs, targets, [&](std::size_t label, std::span<const float> logits) {
    mean_.add(Softmax(logits).cross_entropy(label));
  });
}

// Format: whole, fraction and count of the mean, then the contents of the other metric.
std::string CrossEntropyMetric::contents() const {
  const std::array values{mean_.whole_, mean_.fraction_, mean_.count_};
  return std::string(reinterpret_cast<const char*>(values.data()), sizeof values) + counts_->contents();
}

void CrossEntropyMetric::merge(std::string_view contents) {
  std::array<std::int64_t, 3> values{};
  const bool is_long_enough = contents.size() >= sizeof values;
  if (is_long_enough) std::memcpy(values.data(), contents.data(), sizeof values);
  const auto [whole, fraction, count] = values;
  if (!is_long_enough || whole < 0 || fraction < 0 || fraction >= one || count < 0) {
    fail(ExitCode::failed, "these bytes are not the contents of a cross-entropy metric");
  }
  counts_->merge(contents.substr(sizeof values));
  FixedPointMean other;
  other.whole_ = whole;
  other.fraction_ = fraction;
  other.count_ = count;
  mean_.add(other);
}

std::vector<Score> CrossEntropyMetric::scores() const {
  std::vector<Score> scores = counts_->scores();
  scores.push_back({.name = "cross_entropy", .value = mean_.value(), .log_name = "loss", .tag = "eval_loss"});
  return scores;
}

std::vector<std::string> CrossEntropyMetric::other_texts() const {
  return {fmt::format("cross-entropy = {:.4f}", mean_.value())};
}

}  // namespace carillon
