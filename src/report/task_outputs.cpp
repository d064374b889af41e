#include "src/report/task_outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "carillon/core/error.h"
#include "src/data/decode/dataset_info.h"
#include "src/report/evaluation_report.h"
#include "src/report/html_page.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/multilabel.h"
#include "src/tasks/predictions.h"
#include "src/tasks/regression.h"

namespace carillon {
namespace {

class ClassOutputs : public TaskOutputs {
 public:
  ClassOutputs(const Metric& metric, const std::vector<std::string>& names)
      : metric_(dynamic_cast<const ClassificationMetric&>(metric)), names_(names) {}

  void write_report(const std::string& file, const EvaluatedNetwork& network) const override {
    std::vector<Score> scores = metric_.scores();
    std::erase_if(scores, [](const Score& score) { return score.ratio || score.name == "cross_entropy"; });
    carillon::write_report(file, {.network = network,
                                  .counts = metric_.confusion_matrix(),
                                  .class_names = names_,
                                  .loss = metric_.loss(),
                                  .other_scores = std::move(scores)});
  }

  std::string page(const PageFacts& facts) const override {
    return class_page(facts, {metric_.predictions().samples, metric_.classes(), metric_.calibration(), names_});
  }

  PredictionTable table() const override { return class_table(metric_.predictions(), names_); }

  std::vector<RecordList> lists(std::size_t count) const override {
    const std::vector<Prediction>& samples = metric_.predictions().samples;
    return {{"Most certain mistakes", most_certain_mistakes(samples, count)},
            {"Least certain predictions", least_certain(samples, count)}};
  }

  ShownPrediction shown(std::size_t record) const override {
    const Prediction& prediction = metric_.predictions().samples[record];
    return {.truth = name_or_number(names_, static_cast<std::size_t>(prediction.label)),
            .predicted = name_or_number(names_, static_cast<std::size_t>(prediction.predicted())),
            .rating = percent_text(prediction.confidence()),
            .is_right = !prediction.is_mistake()};
  }

 private:
  const ClassificationMetric& metric_;
  const std::vector<std::string>& names_;
};

/// Writes the report of a task that is not a classification.
void write_table(const std::string& file, const EvaluatedNetwork& network, TargetKind target, std::size_t records,
                 const Metric& metric, const std::vector<std::string>& names) {
  write_report(file, TaskReport{.network = network,
                                .row_name = std::string(target_word(target)),
                                .records = records,
                                .scores = metric.scores(),
                                .table = metric.table(),
                                .names = names});
}

/// Returns the `count` samples with the largest `error_of(sample)`, in descending order.
template <typename ErrorOf>
std::vector<std::size_t> largest(std::size_t samples, std::size_t count, ErrorOf error_of) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < samples; ++i) errors.push_back(error_of(i));
  std::vector<std::size_t> all(samples);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return first_by(std::move(all), count, [&](std::size_t i) { return -errors[i]; });
}

class LabelOutputs : public TaskOutputs {
 public:
  LabelOutputs(const Metric& metric, const std::vector<std::string>& names)
      : metric_(dynamic_cast<const MultilabelMetric&>(metric)), names_(names) {}

  void write_report(const std::string& file, const EvaluatedNetwork& network) const override {
    write_table(file, network, TargetKind::labels, samples().count(), metric_, names_);
  }
  std::string page(const PageFacts& facts) const override { return label_page(facts, metric_, names_); }
  PredictionTable table() const override { return label_table(samples(), names_); }

  std::vector<RecordList> lists(std::size_t count) const override {
    const auto error_of = [&](std::size_t i) { return metric_.cross_entropy(i); };
    return {{"Largest losses", largest(samples().count(), count, error_of)}};
  }

  ShownPrediction shown(std::size_t record) const override {
    ShownPrediction shown{.rating = fmt::format("loss {:.3f}", metric_.cross_entropy(record)), .is_right = true};
    const std::size_t count = samples().columns();
    std::vector<std::string> truth, predicted;
    for (std::size_t label = 0; label < count; ++label) {
      const std::size_t at = record * count + label;
      const bool applies = samples().targets()[at] != std::byte{0},
                 is_predicted = predicts_label(samples().outputs()[at]);
      if (applies) truth.push_back(name_or_number(names_, label));
      if (is_predicted) predicted.push_back(name_or_number(names_, label));
      shown.is_right = *shown.is_right && applies == is_predicted;
    }
    shown.truth = text_of(truth);
    shown.predicted = text_of(predicted);
    return shown;
  }

 private:
  const StoredSamples& samples() const { return metric_.samples(); }
  static std::string text_of(const std::vector<std::string>& labels) {
    constexpr std::size_t most = 6;
    if (labels.empty()) return "no label";
    const std::size_t shown = std::min(most, labels.size());
    std::string text =
        fmt::format("{}", fmt::join(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < labels.size()) text += fmt::format(" and {} more", labels.size() - shown);
    return text;
  }

  const MultilabelMetric& metric_;
  const std::vector<std::string>& names_;
};

/// Returns the smallest number of decimals, from 0 to 9, with which a text shows a hundredth of the deviation.
int decimals_of(double deviation) {
  constexpr int most = 9;
  if (!(deviation > 0.0)) return 2;
  return std::clamp(2 - static_cast<int>(std::floor(std::log10(deviation))), 0, most);
}

class NumberOutputs : public TaskOutputs {
 public:
  NumberOutputs(const Metric& metric, const std::vector<std::string>& names)
      : metric_(dynamic_cast<const RegressionMetric&>(metric)), names_(names) {}

  void write_report(const std::string& file, const EvaluatedNetwork& network) const override {
    write_table(file, network, TargetKind::numbers, metric_.samples().count(), metric_, names_);
  }
  std::string page(const PageFacts& facts) const override { return number_page(facts, metric_, names_); }
  PredictionTable table() const override { return number_table(metric_, names_); }

  std::vector<RecordList> lists(std::size_t count) const override {
    const auto error_of = [&](std::size_t i) { return metric_.error(i); };
    return {{"Largest errors", largest(metric_.samples().count(), count, error_of)}};
  }

  ShownPrediction shown(std::size_t record) const override {
    ShownPrediction shown{.rating = fmt::format("error {:.2f}", metric_.error(record))};
    for (std::size_t i = 0; i < metric_.numbers().size(); ++i) {
      add_number(shown.truth, i, metric_.target(record, i));
      add_number(shown.predicted, i, metric_.predicted(record, i));
    }
    return shown;
  }

 private:
  void add_number(std::string& list, std::size_t i, double number) const {
    if (!list.empty()) list += ", ";
    list += fmt::format("{:.{}f}", number, decimals_of(metric_.numbers()[i].deviation));
  }

  const RegressionMetric& metric_;
  const std::vector<std::string>& names_;
};

}  // namespace

MakeMetric metric_for_outputs(TargetKind target, const Task& task, const OutputNeeds& needs) {
  if (target != TargetKind::class_index) return task.make_metric;
  return [classes = static_cast<std::size_t>(task.outputs), needs] {
    return std::make_unique<ClassificationMetric>(
        classes, ClassificationDetails{.has_confusion_matrix = needs.has_confusion_matrix,
                                       .has_predictions = needs.has_predictions});
  };
}

std::unique_ptr<TaskOutputs> task_outputs(TargetKind target, const Metric& metric,
                                          const std::vector<std::string>& names) {
  switch (target) {
    case TargetKind::labels:
      return std::make_unique<LabelOutputs>(metric, names);
    case TargetKind::numbers:
      return std::make_unique<NumberOutputs>(metric, names);
    case TargetKind::class_index:
      return std::make_unique<ClassOutputs>(metric, names);
  }
  fail(ExitCode::failed, "no outputs are known for this kind of target");
}

}  // namespace carillon
