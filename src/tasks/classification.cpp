#include "src/tasks/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "carillon/core/error.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "src/core/text.h"
#include "src/core/text_file.h"
#include "src/tasks/classification_metric.h"

namespace carillon {
namespace {

constexpr const char* loss_name = "cross_entropy";

std::int64_t label_of(std::span<const std::byte> target) { return static_cast<std::int64_t>(label_at(target, 0)); }

/// Makes the cross-entropy with class weights. `weights`: [classes]; empty: all weights are 1.
LossFunction cross_entropy(const ClassificationSettings& settings, std::vector<float> weights) {
  return [smoothing = settings.label_smoothing, gamma = settings.focal_gamma, weights = std::move(weights)](
             Graph& graph, const LossInputs& inputs) {
    return softmax_cross_entropy(
        graph, loss_name, inputs.output, inputs.target,
        {.label_smoothing = smoothing, .mixing = inputs.mixing, .class_weights = weights, .focal_gamma = gamma});
  };
}

/// Makes the loss of a training on records with these targets. The class weights depend on the targets.
LossFunction weighted_cross_entropy(const ClassificationSettings& settings, std::span<const std::byte> targets) {
  const std::vector<std::int64_t> counts = class_counts(targets, settings.classes);
  return cross_entropy(settings, settings.balances_weights ? balanced_class_weights(counts)
                                                           : scaled_class_weights(settings.class_weights, counts));
}

}  // namespace

Task classification_task(const ClassificationSettings& settings) {
  check(settings.classes > 0, "a classification task needs at least one class");
  const std::size_t given = settings.class_weights.size();
  check(given == 0 || given == static_cast<std::size_t>(settings.classes), "each class requires a weight");
  Task task{
      .target = {.type = DType::i32, .shape = {}},
      .outputs = settings.classes,
      .loss = cross_entropy(settings, {}),
      .group_of = label_of,
      .loss_name = loss_name,
      .describe_target = [](std::span<const std::byte> target) { return fmt::format("label {}", label_of(target)); },
      .make_metric = [classes = static_cast<std::size_t>(
                          settings.classes)] { return std::make_unique<ClassificationMetric>(classes); },
      .score = "accuracy"};
  if (settings.balances_weights || given > 0) {
    task.loss_of_records = [settings](std::span<const std::byte> targets) {
      return weighted_cross_entropy(settings, targets);
    };
  }
  return task;
}

namespace {

constexpr std::size_t max_file_bytes = std::size_t{16} << 20;

std::vector<float> weights_of(std::span<const double> values, double mean) {
  std::vector<float> weights;
  for (const double value : values) weights.push_back(static_cast<float>(value / mean));
  return weights;
}

/// Collects and checks the rows of a file of class weights.
class WeightRows {
 public:
  WeightRows(std::string name, std::int64_t classes, std::span<const std::string> class_names)
      : name_(std::move(name)), class_names_(class_names), weights_(static_cast<std::size_t>(classes), unset) {
    for (std::size_t i = 0; i < class_names.size(); ++i) numbers_.emplace(class_names[i], i);
  }

  void add(const CsvTable::Row& row) {
    const std::size_t label = class_of(row);
    const std::optional<double> weight = csv_number(row.cells[1]);
    if (!weight || !std::isfinite(static_cast<float>(*weight)) || *weight < 0.0) {
      fail_at(row, fmt::format("the weight '{}' is not a finite number of at least 0", printable(row.cells[1])));
    }
    if (weights_[label] != unset) fail_at(row, fmt::format("names class {} again", name_of(label)));
    weights_[label] = *weight;
  }

  std::vector<double> weights() const {
    const auto missing = std::ranges::find(weights_, unset);
    if (missing == weights_.end()) return weights_;
    fail(ExitCode::data, "{}: has no weight for class {}", name_,
         name_of(static_cast<std::size_t>(missing - weights_.begin())));
  }

 private:
  static constexpr double unset = -1.0;

  std::size_t class_of(const CsvTable::Row& row) const {
    const std::string name(csv_trimmed(row.cells[0]));
    if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = error == std::errc{} && end == name.data() + name.size();
    if (is_number && number < weights_.size()) return number;
    fail_at(row, fmt::format("'{}' is neither the name of a class nor a number from 0 to {}", printable(name),
                             weights_.size() - 1));
  }

  std::string name_of(std::size_t label) const {
    return label < class_names_.size() ? fmt::format("{} ({})", label, printable(class_names_[label]))
                                       : fmt::format("{}", label);
  }

  [[noreturn]] void fail_at(const CsvTable::Row& row, const std::string& what) const {
    fail(ExitCode::data, "{}: line {}: {}", name_, row.line, what);
  }

  std::string name_;
  std::span<const std::string> class_names_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<double> weights_;
};

}  // namespace

std::vector<std::int64_t> class_counts(std::span<const std::byte> targets, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < label_count(targets); ++i) counts.at(label_at(targets, i)) += 1;
  return counts;
}

std::vector<float> balanced_class_weights(std::span<const std::int64_t> counts) {
  double records = 0.0, present = 0.0;
  for (const std::int64_t count : counts) {
    records += static_cast<double>(count);
    present += count > 0 ? 1.0 : 0.0;
  }
  check(records > 0.0, "balanced class weights require records");
  std::vector<double> weights;
  for (const std::int64_t count : counts) weights.push_back(count > 0 ? 1.0 / static_cast<double>(count) : 0.0);
  return weights_of(weights, present / records);
}

std::vector<float> scaled_class_weights(std::span<const double> given, std::span<const std::int64_t> counts) {
  check(given.size() == counts.size(), "each class requires a weight");
  double sum = 0.0, records = 0.0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    sum += given[c] * static_cast<double>(counts[c]);
    records += static_cast<double>(counts[c]);
  }
  if (!(sum > 0.0)) fail(ExitCode::data, "--class-weights: the classes of all training records have weight 0");
  std::vector<float> weights = weights_of(given, sum / records);
  if (std::ranges::all_of(weights, [](float weight) { return std::isfinite(weight); })) return weights;
  fail(ExitCode::data, "--class-weights: a weight is too large, relative to the mean over the training records");
}

std::vector<double> read_class_weights(const std::string& path, std::int64_t classes,
                                       std::span<const std::string> class_names) {
  const std::string name = "--class-weights " + printable(path);
  const CsvTable table = read_csv(path, name, max_file_bytes);
  if (table.header != std::vector<std::string>{"class", "weight"}) {
    fail(ExitCode::data, "{}: line 1: is not the header 'class,weight'", name);
  }
  WeightRows rows(name, classes, class_names);
  for (const CsvTable::Row& row : table.rows) rows.add(row);
  return rows.weights();
}

}  // namespace carillon
