#include "src/tasks/class_scores_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "carillon/core/error.h"
#include "src/tasks/class_samples.h"
#include "src/tasks/probabilities.h"

namespace carillon {
namespace {

constexpr double full_confidence = 1 << 30;  ///< a confidence of 1, in a sum
constexpr std::size_t top_count = 5;

double ratio(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

/// Mean over the classes that have the score.
double mean_of(const std::vector<ClassCounts>& classes, std::optional<double> (ClassCounts::*score)() const) {
  double sum = 0.0, count = 0.0;
  for (const ClassCounts& one : classes) {
    const std::optional<double> value = (one.*score)();
    sum += value.value_or(0.0);
    count += value ? 1.0 : 0.0;
  }
  return sum / count;
}

/// The number of classes that precede `label`.
std::size_t place_of(std::size_t label, std::span<const float> logits) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    before += logits[i] > logits[label] || (logits[i] == logits[label] && i < label) ? 1 : 0;
  }
  return before;
}

}  // namespace

double Calibration::Bin::mean_confidence() const {
  return static_cast<double>(confidence) / full_confidence / static_cast<double>(count);
}

double Calibration::Bin::accuracy() const { return ratio(correct, count); }

void Calibration::add(double confidence, bool is_correct) {
  constexpr auto bins = static_cast<double>(bin_count);
  const double number = std::clamp(std::ceil(confidence * bins) - 1.0, 0.0, bins - 1.0);
  Bin& bin = bins_[static_cast<std::size_t>(number)];
  bin.count += 1;
  bin.correct += is_correct ? 1 : 0;
  bin.confidence += std::llround(confidence * full_confidence);
}

double Calibration::error() const {
  double sum = 0.0;
  std::int64_t samples = 0;
  for (const Bin& bin : bins_) {
    sum += std::abs(static_cast<double>(bin.correct) - static_cast<double>(bin.confidence) / full_confidence);
    samples += bin.count;
  }
  return sum / static_cast<double>(samples);
}

void ClassScoresMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  other_->add(outputs, targets);
  for_each_class_sample(outputs, targets, [&](std::size_t label, std::span<const float> logits) {
    const std::size_t predicted = predicted_class(logits);
    classes_[label].support += 1;
    classes_[predicted].predicted += 1;
    classes_[label].correct += predicted == label ? 1 : 0;
    in_top_5_ += place_of(label, logits) < top_count ? 1 : 0;
    samples_ += 1;
    calibration_.add(Softmax(logits).probability(predicted), predicted == label);
  });
}

// Format: int64 numbers: how many follow; the number of classes; samples; those in the top 5; count, correct and
// confidence of each bin; then (class, support, predicted, correct) for each class with samples or predictions. The
// contents of the other metric follow.
std::string ClassScoresMetric::contents() const {
  std::vector<std::int64_t> values{0, static_cast<std::int64_t>(classes_.size()), samples_, in_top_5_};
  for (const Calibration::Bin& bin : calibration_.bins()) {
    values.insert(values.end(), {bin.count, bin.correct, bin.confidence});
  }
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const ClassCounts& one = classes_[i];
    if (one.support == 0 && one.predicted == 0) continue;
    values.insert(values.end(), {static_cast<std::int64_t>(i), one.support, one.predicted, one.correct});
  }
  values[0] = static_cast<std::int64_t>(values.size()) - 1;
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]) +
         other_->contents();
}

void ClassScoresMetric::merge(std::string_view contents) {
  constexpr std::size_t header = 3, bin_values = 3 * Calibration::bin_count, class_values = 4;
  const auto refuse = [] { fail(ExitCode::failed, "these bytes are not the contents of a class scores metric"); };
  std::int64_t count = 0;
  if (contents.size() < sizeof count) refuse();
  std::memcpy(&count, contents.data(), sizeof count);
  contents.remove_prefix(sizeof count);
  const bool is_whole = count >= static_cast<std::int64_t>(header + bin_values) &&
                        static_cast<std::size_t>(count) <= contents.size() / sizeof count;
  if (!is_whole || (static_cast<std::size_t>(count) - header - bin_values) % class_values != 0) refuse();
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::memcpy(values.data(), contents.data(), values.size() * sizeof count);
  const auto classes = static_cast<std::int64_t>(classes_.size());
  bool is_valid = values[0] == classes && std::ranges::all_of(values, [](std::int64_t value) { return value >= 0; });
  for (std::size_t i = header + bin_values; i < values.size(); i += class_values) {
    is_valid = is_valid && values[i] < classes;
  }
  if (!is_valid) refuse();
  other_->merge(contents.substr(values.size() * sizeof count));
  samples_ += values[1];
  in_top_5_ += values[2];
  for (std::size_t i = 0; i < Calibration::bin_count; ++i) {
    const std::int64_t* const of_bin = values.data() + header + 3 * i;
    Calibration::Bin& bin = calibration_.bins_[i];
    bin.count += of_bin[0];
    bin.correct += of_bin[1];
    bin.confidence += of_bin[2];
  }
  for (std::size_t i = header + bin_values; i < values.size(); i += class_values) {
    ClassCounts& one = classes_[static_cast<std::size_t>(values[i])];
    one.support += values[i + 1];
    one.predicted += values[i + 2];
    one.correct += values[i + 3];
  }
}

std::optional<double> ClassScoresMetric::top_5() const {
  return classes_.size() > top_count ? std::optional(ratio(in_top_5_, samples_)) : std::nullopt;
}

double ClassScoresMetric::balanced_accuracy() const { return mean_of(classes_, &ClassCounts::recall); }

double ClassScoresMetric::macro_f1() const { return mean_of(classes_, &ClassCounts::f1); }

std::vector<Score> ClassScoresMetric::scores() const {
  std::vector<Score> scores = other_->scores();
  if (const std::optional<double> share = top_5()) scores.push_back({.name = "top_5", .value = *share});
  scores.push_back({.name = "balanced_accuracy", .value = balanced_accuracy()});
  scores.push_back({.name = "macro_f1", .value = macro_f1()});
  scores.push_back({.name = "calibration_error", .value = calibration_.error()});
  return scores;
}

std::vector<std::string> ClassScoresMetric::other_texts() const {
  const std::optional<double> share = top_5();
  std::vector<std::string> texts{fmt::format(
      "{}balanced accuracy = {:.4f}, macro F1 = {:.4f}, calibration error = {:.4f}",
      share ? fmt::format("top-5 = {:.4f}, ", *share) : "", balanced_accuracy(), macro_f1(), calibration_.error())};
  for (std::string& text : other_->other_texts()) texts.push_back(std::move(text));
  return texts;
}

}  // namespace carillon
