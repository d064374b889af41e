#include "src/tasks/classification_metric.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// Calls `visit(label, predicted)` for each sample.
template <typename Visit>
void for_each_sample(std::span<const float> outputs, std::span<const std::byte> targets, Visit visit) {
  const std::size_t samples = targets.size() / sizeof(std::int32_t);
  if (samples == 0) return;
  const std::size_t classes = outputs.size() / samples;
  for (std::size_t i = 0; i < samples; ++i) {
    std::int32_t label = 0;
    std::memcpy(&label, targets.data() + i * sizeof label, sizeof label);
    const std::span<const float> row = outputs.subspan(i * classes, classes);
    visit(static_cast<std::size_t>(label), static_cast<std::size_t>(std::ranges::max_element(row) - row.begin()));
  }
}

std::string bytes_of(std::span<const std::int64_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

[[noreturn]] void fail_to_merge(std::string_view metric) {
  fail(ExitCode::failed, "these are not the contents of {} metric of the same classes", metric);
}

/// The inverse of bytes_of; without values if the size is wrong.
std::vector<std::int64_t> values_in(std::string_view bytes) {
  if (bytes.size() % sizeof(std::int64_t) != 0) return {};
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

void AccuracyMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  for_each_sample(outputs, targets, [&](std::size_t label, std::size_t predicted) {
    accuracy_.correct += predicted == label ? 1 : 0;
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
  for_each_sample(outputs, targets,
                  [&](std::size_t label, std::size_t predicted) { matrix_.row(label)[predicted] += 1; });
}

// The number of classes, then label, predicted class and count of each count above 0: there are at most as many of
// these as samples, however many classes there are.
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
