#include "src/tasks/classification_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr double full_confidence = 1 << 30;  ///< the confidence 1 as a fixed-point number, in the units of
                                             ///< Bin::confidence
constexpr std::size_t top_count = 5;
constexpr std::size_t class_values = 4, cell_values = 3;  ///< count of numbers per row and per cell in contents()

double ratio(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

/// Returns the mean of `score` over the classes for which `score` is not nullopt.
double mean_of(const std::vector<ClassCounts>& classes, std::optional<double> (ClassCounts::*score)() const) {
  double sum = 0.0, count = 0.0;
  for (const ClassCounts& one : classes) {
    const std::optional<double> value = (one.*score)();
    sum += value.value_or(0.0);
    count += value ? 1.0 : 0.0;
  }
  return sum / count;
}

/// Counts the classes that precede class `label`. The header defines the order.
std::size_t place_of(std::size_t label, std::span<const float> logits) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    before += logits[i] > logits[label] || (logits[i] == logits[label] && i < label) ? 1 : 0;
  }
  return before;
}

[[noreturn]] void refuse() {
  fail(ExitCode::failed, "these bytes are not the contents of a classification metric with the same classes");
}

/// Reads the contents of a metric. All numbers are int64, at least 0.
class Reader {
 public:
  explicit Reader(std::string_view contents) : left_(contents) {}

  std::int64_t number(std::int64_t limit = std::numeric_limits<std::int64_t>::max()) {
    std::int64_t value = 0;
    if (left_.size() < sizeof value) refuse();
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    if (value < 0 || value >= limit) refuse();
    return value;
  }
  std::size_t index(std::size_t limit) { return static_cast<std::size_t>(number(static_cast<std::int64_t>(limit))); }

  /// Reads a count and checks that this many elements of `size` bytes follow. Returns the count.
  std::size_t count(std::size_t size) {
    const std::int64_t count = number();
    if (static_cast<std::size_t>(count) > left_.size() / size) refuse();
    return static_cast<std::size_t>(count);
  }
  std::vector<Prediction> predictions() {
    std::vector<Prediction> samples(count(sizeof(Prediction)));
    if (!samples.empty()) std::memcpy(samples.data(), left_.data(), samples.size() * sizeof samples[0]);
    left_.remove_prefix(samples.size() * sizeof(Prediction));
    return samples;
  }
  void end() const {
    if (!left_.empty()) refuse();
  }

 private:
  std::string_view left_;
};

bool is_valid(const Prediction& prediction, std::size_t class_count) {
  const auto is_class = [&](std::int32_t value) { return value >= 0 && static_cast<std::size_t>(value) < class_count; };
  return is_class(prediction.label) && std::ranges::all_of(prediction.classes, is_class) &&
         std::ranges::all_of(prediction.probabilities, [](double value) { return value >= 0.0 && value <= 1.0; });
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

void Calibration::add(const std::array<Bin, bin_count>& bins) {
  for (std::size_t i = 0; i < bin_count; ++i) {
    bins_[i].count += bins[i].count;
    bins_[i].correct += bins[i].correct;
    bins_[i].confidence += bins[i].confidence;
  }
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

void FixedPointSum::add(double number) {
  if (!(number < static_cast<double>(one))) number = static_cast<double>(one);  // NaN also counts as `one`
  number = std::max(number, 0.0);
  const double floor = std::floor(number);
  add({.whole = static_cast<std::int64_t>(floor),
       .fraction = std::llround((number - floor) * static_cast<double>(one))});
}

void FixedPointSum::add(const FixedPointSum& other) {
  whole += other.whole;
  fraction += other.fraction;
  whole += fraction / one;
  fraction %= one;
}

double FixedPointSum::value() const {
  return static_cast<double>(whole) + static_cast<double>(fraction) / static_cast<double>(one);
}

ClassificationMetric::ClassificationMetric(std::size_t class_count, const ClassificationDetails& details)
    : classes_(class_count) {
  if (details.has_confusion_matrix) confusion_matrix_.emplace(class_count);
  if (details.has_predictions) predictions_.emplace(Predictions{.class_count = class_count});
}

void ClassificationMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  const std::size_t count = label_count(targets);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t label = label_at(targets, i);
    const std::span<const float> logits = outputs.subspan(i * (outputs.size() / count), outputs.size() / count);
    const std::size_t predicted = predicted_class(logits);
    const Softmax softmax(logits);
    classes_[label].support += 1;
    classes_[predicted].predicted += 1;
    classes_[label].correct += predicted == label ? 1 : 0;
    samples_ += 1;
    in_top_5_ += place_of(label, logits) < top_count ? 1 : 0;
    loss_sum_.add(softmax.cross_entropy(label));
    calibration_.add(softmax.probability(predicted), predicted == label);
    if (confusion_matrix_) confusion_matrix_->row(label)[predicted] += 1;
    if (predictions_) predictions_->samples.push_back(prediction_of(label, logits, predictions_->top_count()));
  }
}

// The format is a sequence of int64 numbers: the number of classes; the number of samples; the number of samples with
// the true class in the top 5; whole and fraction of the sum of losses; count, correct and confidence of each bin. The
// next numbers are the number of rows, and (class, support, predicted, correct) for each class with samples or
// predictions. If there is a confusion matrix, the next numbers are the number of cells, and (label, predicted,
// samples) for each cell with samples. If there are predictions, their number and the predictions come last.
std::string ClassificationMetric::contents() const {
  std::vector<std::int64_t> values{static_cast<std::int64_t>(classes_.size()), samples_, in_top_5_, loss_sum_.whole,
                                   loss_sum_.fraction};
  for (const Calibration::Bin& bin : calibration_.bins()) {
    values.insert(values.end(), {bin.count, bin.correct, bin.confidence});
  }
  const auto add_rows = [&](std::size_t row_values, const auto& add) {
    const std::size_t at = values.size();
    values.push_back(0);
    add();
    values[at] = static_cast<std::int64_t>((values.size() - at - 1) / row_values);
  };
  add_rows(class_values, [&] {
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      const ClassCounts& one = classes_[i];
      if (one.support == 0 && one.predicted == 0) continue;
      values.insert(values.end(), {static_cast<std::int64_t>(i), one.support, one.predicted, one.correct});
    }
  });
  if (confusion_matrix_) {
    add_rows(cell_values, [&] {
      for (std::size_t label = 0; label < classes_.size(); ++label) {
        const std::span<const std::int64_t> row = std::as_const(*confusion_matrix_).row(label);
        for (std::size_t i = 0; i < row.size(); ++i) {
          if (row[i] == 0) continue;
          values.insert(values.end(), {static_cast<std::int64_t>(label), static_cast<std::int64_t>(i), row[i]});
        }
      }
    });
  }
  static_assert(std::is_trivially_copyable_v<Prediction> && sizeof(Prediction) == 64);
  if (predictions_) values.push_back(static_cast<std::int64_t>(predictions_->samples.size()));
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
  if (predictions_) {
    const std::span samples(predictions_->samples);
    bytes.append(reinterpret_cast<const char*>(samples.data()), samples.size_bytes());
  }
  return bytes;
}

// Reads and checks all contents before it adds them, so that refused contents change nothing.
void ClassificationMetric::merge(std::string_view contents) {
  Reader reader(contents);
  const std::size_t classes = classes_.size();
  if (reader.number() != static_cast<std::int64_t>(classes)) refuse();
  const std::int64_t samples = reader.number(), in_top_5 = reader.number(), whole = reader.number();
  const FixedPointSum loss_sum{.whole = whole, .fraction = reader.number(FixedPointSum::one)};
  std::array<Calibration::Bin, Calibration::bin_count> bins;
  for (Calibration::Bin& bin : bins) {
    for (std::int64_t* const value : {&bin.count, &bin.correct, &bin.confidence}) *value = reader.number();
  }
  struct Row {
    std::size_t label;
    ClassCounts counts;
  };
  std::vector<Row> rows(reader.count(class_values * sizeof(std::int64_t)));
  for (auto& [label, counts] : rows) {
    label = reader.index(classes);
    for (std::int64_t* const value : {&counts.support, &counts.predicted, &counts.correct}) *value = reader.number();
  }
  struct Cell {
    std::size_t label, predicted;
    std::int64_t samples;
  };
  std::vector<Cell> cells(confusion_matrix_ ? reader.count(cell_values * sizeof(std::int64_t)) : 0);
  for (Cell& cell : cells) {
    cell.label = reader.index(classes);
    cell.predicted = reader.index(classes);
    cell.samples = reader.number();
    if (cell.samples == 0) refuse();
  }
  std::vector<Prediction> predictions;
  if (predictions_) predictions = reader.predictions();
  reader.end();
  if (!std::ranges::all_of(predictions, [&](const Prediction& one) { return is_valid(one, classes); })) refuse();

  samples_ += samples;
  in_top_5_ += in_top_5;
  loss_sum_.add(loss_sum);
  calibration_.add(bins);
  for (const auto& [label, counts] : rows) {
    classes_[label].support += counts.support;
    classes_[label].predicted += counts.predicted;
    classes_[label].correct += counts.correct;
  }
  for (const Cell& cell : cells) confusion_matrix_->row(cell.label)[cell.predicted] += cell.samples;
  if (predictions_) predictions_->samples.insert(predictions_->samples.end(), predictions.begin(), predictions.end());
}

Accuracy ClassificationMetric::accuracy() const {
  Accuracy accuracy{.total = samples_};
  for (const ClassCounts& one : classes_) accuracy.correct += one.correct;
  return accuracy;
}

std::optional<double> ClassificationMetric::top_5() const {
  return classes_.size() > top_count ? std::optional(ratio(in_top_5_, samples_)) : std::nullopt;
}

double ClassificationMetric::balanced_accuracy() const { return mean_of(classes_, &ClassCounts::recall); }

double ClassificationMetric::macro_f1() const { return mean_of(classes_, &ClassCounts::f1); }

const ConfusionMatrix& ClassificationMetric::confusion_matrix() const {
  check(confusion_matrix_.has_value(), "this metric does not have a confusion matrix");
  return *confusion_matrix_;
}

const Predictions& ClassificationMetric::predictions() const {
  check(predictions_.has_value(), "this metric does not have the predictions of all records");
  return *predictions_;
}

std::vector<Score> ClassificationMetric::scores() const {
  std::vector<Score> scores{accuracy().score(),
                            {.name = "cross_entropy", .value = loss(), .log_name = "loss", .tag = "eval_loss"}};
  if (const std::optional<double> share = top_5()) scores.push_back({.name = "top_5", .value = *share});
  scores.push_back({.name = "balanced_accuracy", .value = balanced_accuracy()});
  scores.push_back({.name = "macro_f1", .value = macro_f1()});
  scores.push_back({.name = "calibration_error", .value = calibration_.error()});
  return scores;
}

std::vector<std::string> ClassificationMetric::other_texts() const {
  const std::optional<double> share = top_5();
  return {fmt::format("{}balanced accuracy = {:.4f}, macro F1 = {:.4f}, calibration error = {:.4f}",
                      share ? fmt::format("top-5 = {:.4f}, ", *share) : "", balanced_accuracy(), macro_f1(),
                      calibration_.error()),
          fmt::format("cross-entropy = {:.4f}", loss())};
}

Score Accuracy::score() const {
  return {.name = "accuracy",
          .value = value(),
          .log_name = "precision",
          .tag = "precision @ 1",
          .ratio = Ratio{.part_name = "correct", .whole_name = "total", .part = correct, .whole = total}};
}

std::string Accuracy::text() const { return fmt::format("precision @ 1 = {:.3f} ({}/{})", value(), correct, total); }

ClassCounts ConfusionMatrix::of_class(std::size_t label) const {
  ClassCounts result{.correct = row(label)[label]};
  for (std::size_t other = 0; other < class_count_; ++other) {
    result.support += row(label)[other];
    result.predicted += row(other)[label];
  }
  return result;
}

Accuracy ConfusionMatrix::accuracy() const {
  Accuracy all;
  for (std::size_t label = 0; label < class_count_; ++label) {
    all.correct += row(label)[label];
    for (const std::int64_t count : row(label)) all.total += count;
  }
  return all;
}

}  // namespace carillon
