#include "src/tasks/classification_metric.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "carillon/core/error.h"
#include "src/tasks/class_samples.h"

namespace carillon {
namespace {

std::string bytes_of(std::span<const std::int64_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

[[noreturn]] void fail_to_merge(std::string_view metric) {
  fail(ExitCode::failed, "these bytes are not the contents of {} metric with the same classes", metric);
}

/// Inverse of bytes_of(). Returns no values if the size is wrong.
std::vector<std::int64_t> values_in(std::string_view bytes) {
  if (bytes.size() % sizeof(std::int64_t) != 0) return {};
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

void AccuracyMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  for_each_class_sample(outputs, targets, [&](std::size_t label, std::span<const float> logits) {
    accuracy_.correct += predicted_class(logits) == label ? 1 : 0;
    accuracy_.total += 1;
  });
}

std::string AccuracyMetric::contents() const { return bytes_of(std::array{accuracy_.correct, accuracy_.total}); }

void AccuracyMetric::merge(std::string_view contents) {
  const std::vector<std::int64_t> values = values_in(contents);
  if (values.size() != 2 || values[0] < 0 || values[0] > values[1]) fail_to_merge("an accuracy");
  accuracy_.correct += values[0];
  accuracy_.total += values[1];
}

void ConfusionMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  for_each_class_sample(outputs, targets, [&](std::size_t label, std::span<const float> logits) {
    matrix_.row(label)[predicted_class(logits)] += 1;
  });
}

// Format: the number of classes, then (label, predicted class, count) for each count above 0. So the size is bounded by
// the number of samples, not by the square of the number of classes.
std::string ConfusionMetric::contents() const {
  std::vector<std::int64_t> values{static_cast<std::int64_t>(matrix_.class_count())};
  for (std::size_t label = 0; label < matrix_.class_count(); ++label) {
    const std::span<const std::int64_t> row = matrix_.row(label);
    for (std::size_t predicted = 0; predicted < row.size(); ++predicted) {
      if (row[predicted] == 0) continue;
      values.push_back(static_cast<std::int64_t>(label));
      values.push_back(static_cast<std::int64_t>(predicted));
      values.push_back(row[predicted]);
    }
  }
  return bytes_of(values);
}

void ConfusionMetric::merge(std::string_view contents) {
  const std::vector<std::int64_t> values = values_in(contents);
  const auto classes = static_cast<std::int64_t>(matrix_.class_count());
  if (values.size() % 3 != 1 || values[0] != classes) fail_to_merge("a confusion");
  const auto is_class = [&](std::int64_t value) { return value >= 0 && value < classes; };
  for (std::size_t i = 1; i < values.size(); i += 3) {
    if (!is_class(values[i]) || !is_class(values[i + 1]) || values[i + 2] <= 0) fail_to_merge("a confusion");
  }
  for (std::size_t i = 1; i < values.size(); i += 3) {
    matrix_.row(static_cast<std::size_t>(values[i]))[static_cast<std::size_t>(values[i + 1])] += values[i + 2];
  }
}

}  // namespace carillon
