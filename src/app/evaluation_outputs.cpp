#include "src/app/evaluation_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/version.h"
#include "carillon/options/data_options.h"
#include "src/app/saved_network.h"
#include "src/data/decode/picture_names.h"
#include "src/data/records/file_pattern.h"
#include "src/images/sheet.h"
#include "src/images/thumbnail.h"
#include "src/options/run_description.h"
#include "src/report/evaluation_report.h"
#include "src/report/html_report.h"
#include "src/report/learning_curves.h"
#include "src/report/mistake_sheet.h"
#include "src/report/predictions_file.h"
#include "src/report/task_report.h"
#include "src/tasks/class_scores_metric.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/cross_entropy_metric.h"
#include "src/tasks/multilabel_metric.h"
#include "src/tasks/prediction_metric.h"
#include "src/tasks/regression_metric.h"

namespace carillon {
namespace {

/// The outputs that are given, as (option, file).
std::vector<std::pair<std::string, std::string>> outputs(const EvalOptions& options) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const std::string& file : options.report) given.emplace_back("--report", file);
  if (!options.predictions.empty()) given.emplace_back("--predictions", options.predictions);
  if (!options.mistakes.empty()) given.emplace_back("--mistakes", options.mistakes);
  return given;
}

bool is_page(const std::string& file) { return report_form(file) == ReportForm::html; }

/// A page has no confusion matrix of all classes.
bool needs_matrix(const EvalOptions& options) {
  return std::ranges::any_of(options.report,
                             [](const std::string& file) { return report_form(file) != ReportForm::html; });
}

/// The names of the pictures of these records; empty texts if they have none.
std::vector<std::string> names_of(const EvaluationResult& result, const std::vector<std::size_t>& ascending,
                                  const std::function<void()>& heartbeat) {
  const std::vector<std::string>& patterns = result.options.data.files;
  if (is_synthetic(patterns)) return std::vector<std::string>(ascending.size());
  return picture_names(expand_file_patterns(patterns), ascending, heartbeat);
}

/// --predictions.
void write_predictions_of(const EvaluationResult& result, const PredictionTable& table,
                          const std::function<void()>& heartbeat) {
  std::vector<std::size_t> all(table.record_count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::vector<std::string> names = names_of(result, all, heartbeat);
  write_predictions(result.options.predictions, table, [&](std::size_t i) {
    heartbeat();
    Dataset::Place place = result.dataset.place_of(i);
    return RecordOrigin{std::move(place.path), place.number, names[i]};
  });
}

/// The outputs of a classification, and what several of them use.
class OutputWriter {
 public:
  OutputWriter(const EvaluationResult& result, const std::function<void()>& heartbeat)
      : result_(result),
        heartbeat_(heartbeat),
        predictions_(dynamic_cast<const PredictionMetric&>(result.metric)),
        scores_(dynamic_cast<const ClassScoresMetric&>(predictions_.other())),
        loss_(dynamic_cast<const CrossEntropyMetric&>(scores_.other())),
        class_names_(trained_class_names(result.loaded, result.program_spec)) {}

  void write_report(const std::string& file) const;
  void write_page(const std::string& file) const;
  void write_mistakes(const std::string& file) const;
  PredictionTable table() const { return class_table(predictions_.predictions(), class_names_); }

 private:
  std::string name_of(std::int32_t label) const {
    const auto i = static_cast<std::size_t>(label);
    return i < class_names_.size() ? class_names_[i] : std::to_string(label);
  }
  /// `name`: of the picture.
  ShownPrediction shown(std::size_t record, const std::string& name) const;
  std::vector<ShownPrediction> shown(const std::vector<std::size_t>& records) const;

  const EvaluationResult& result_;
  const std::function<void()>& heartbeat_;
  const PredictionMetric& predictions_;
  const ClassScoresMetric& scores_;
  const CrossEntropyMetric& loss_;
  std::vector<std::string> class_names_;
};

void OutputWriter::write_report(const std::string& file) const {
  std::vector<Score> scores = scores_.scores();
  std::erase_if(scores, [](const Score& score) { return score.ratio || score.name == "cross_entropy"; });
  carillon::write_report(file, {.checkpoint = result_.loaded.path.string(),
                                .model = result_.loaded.state.model,
                                .values = result_.values,
                                .step = result_.loaded.state.global_step,
                                .counts = dynamic_cast<const ConfusionMetric&>(loss_.counts()).matrix(),
                                .class_names = class_names_,
                                .loss = loss_.loss(),
                                .other_scores = std::move(scores)});
}

/// The options in a checkpoint, as (name, value).
std::vector<std::pair<std::string, std::string>> described_options(const std::string& options_json) {
  const nlohmann::json json = nlohmann::json::parse(options_json, nullptr, false);
  std::vector<std::pair<std::string, std::string>> options;
  if (!json.is_object()) return options;
  for (const auto& [name, value] : json.items()) {
    options.emplace_back(shown_name(name), value.is_string() ? value.get<std::string>() : value.dump());
  }
  return options;
}

void OutputWriter::write_page(const std::string& file) const {
  const Predictions& predictions = predictions_.predictions();
  const LoadedCheckpoint& loaded = result_.loaded;
  write_html_report(file, {.checkpoint = loaded.path.string(),
                           .model = loaded.state.model,
                           .values = result_.values,
                           .step = loaded.state.global_step,
                           .version = version_line(result_.program),
                           .records = result_.options.data.files,
                           .scores = scores_.scores(),
                           .predictions = predictions,
                           .class_names = class_names_,
                           .calibration = scores_.calibration(),
                           .curves = read_learning_curves(loaded.path.parent_path()),
                           .mistakes = shown(most_certain_mistakes(predictions.samples, max_report_pictures)),
                           .uncertain = shown(least_certain(predictions.samples, max_report_pictures)),
                           .options = described_options(loaded.state.options_json)});
}

/// "train-00000: record 17, cat.jpg"
std::string origin_text(const Dataset::Place& place, const std::string& picture) {
  return fmt::format("{}: record {}{}{}", std::filesystem::path(place.path).filename().string(), place.number,
                     picture.empty() ? "" : ", ", picture);
}

ShownPrediction OutputWriter::shown(std::size_t record, const std::string& name) const {
  heartbeat_();
  const Dataset& dataset = result_.dataset;
  const Prediction& prediction = predictions_.predictions().samples[record];
  std::vector<std::uint8_t> image(dataset.image_bytes());
  std::vector<std::byte> target(dataset.target_bytes());
  dataset.read(record, record, image, target);
  return {.picture = make_thumbnail(dataset.image_shape(), image, sheet_tile_side),
          .true_class = name_of(prediction.label),
          .predicted = name_of(prediction.predicted()),
          .probability = prediction.confidence(),
          .is_mistake = prediction.is_mistake(),
          .origin = origin_text(dataset.place_of(record), name)};
}

std::vector<ShownPrediction> OutputWriter::shown(const std::vector<std::size_t>& records) const {
  std::vector<std::size_t> ascending = records;
  std::ranges::sort(ascending);
  const std::vector<std::string> names = names_of(result_, ascending, heartbeat_);
  std::vector<ShownPrediction> all;
  for (const std::size_t record : records) {
    const auto place = std::ranges::lower_bound(ascending, record) - ascending.begin();
    all.push_back(shown(record, names[static_cast<std::size_t>(place)]));
  }
  return all;
}

void OutputWriter::write_mistakes(const std::string& file) const {
  write_mistake_sheet(file, shown(most_certain_mistakes(predictions_.predictions().samples, max_sheet_mistakes)));
}

/// The outputs of another task than a classification.
void write_task_outputs(const EvaluationResult& result, const std::function<void()>& heartbeat) {
  const std::vector<std::string> names = trained_class_names(result.loaded, result.program_spec);
  for (const std::string& file : result.options.report) {
    write_report(file, TaskReport{.checkpoint = result.loaded.path.string(),
                                  .model = result.loaded.state.model,
                                  .values = result.values,
                                  .step = result.loaded.state.global_step,
                                  .row_name = result.target == TargetKind::labels ? "label" : "number",
                                  .records = result.dataset.size(),
                                  .scores = result.metric.scores(),
                                  .table = result.metric.table(),
                                  .names = names});
  }
  if (result.options.predictions.empty()) return;
  if (const auto* const labels = dynamic_cast<const MultilabelMetric*>(&result.metric)) {
    write_predictions_of(result, label_table(labels->samples(), names), heartbeat);
  } else {
    write_predictions_of(result, number_table(dynamic_cast<const RegressionMetric&>(result.metric), names), heartbeat);
  }
}

}  // namespace

std::string output_option(const EvalOptions& options) {
  const auto given = outputs(options);
  return given.empty() ? "" : given.front().first;
}

void check_output_places(const EvalOptions& options) {
  for (const std::string& file : options.report) check_report_place(file);
  if (!options.predictions.empty()) check_predictions_place(options.predictions);
  if (!options.mistakes.empty()) check_sheet_place(options.mistakes);
  std::set<std::filesystem::path> files;
  for (const auto& [option, file] : outputs(options)) {
    if (!files.insert(std::filesystem::path(file).lexically_normal()).second) {
      fail(ExitCode::usage, "{} {}: another output has the same file", option, file);
    }
  }
}

void check_outputs_fit(const EvalOptions& options, TargetKind target, std::int64_t output_count) {
  if (target != TargetKind::class_index) {
    if (!options.mistakes.empty()) fail(ExitCode::usage, "--mistakes requires a classification");
    if (std::ranges::any_of(options.report, is_page)) {
      fail(ExitCode::usage, "--report: a page requires a classification; .json and .csv are for all tasks");
    }
    return;
  }
  constexpr std::int64_t most = 20'000;
  if (options.report.empty() || output_count <= most) return;
  fail(ExitCode::usage, "--report: {} classes are too many for a confusion matrix, the limit is {}", output_count,
       most);
}

MakeMetric metric_for(const EvalOptions& options, TargetKind target, const Task& task) {
  if (output_option(options).empty() || target != TargetKind::class_index) return task.make_metric;
  return [classes = static_cast<std::size_t>(task.outputs), needs_matrix = needs_matrix(options)] {
    std::unique_ptr<Metric> counts;
    if (needs_matrix) {
      counts = std::make_unique<ConfusionMetric>(classes);
    } else {
      counts = std::make_unique<AccuracyMetric>();
    }
    auto loss = std::make_unique<CrossEntropyMetric>(std::move(counts));
    return std::make_unique<PredictionMetric>(classes, std::make_unique<ClassScoresMetric>(classes, std::move(loss)));
  };
}

void write_outputs(const EvaluationResult& result, const std::function<void()>& heartbeat) {
  if (output_option(result.options).empty()) return;
  if (result.target != TargetKind::class_index) return write_task_outputs(result, heartbeat);
  const OutputWriter writer(result, heartbeat);
  for (const std::string& file : result.options.report) {
    is_page(file) ? writer.write_page(file) : writer.write_report(file);
  }
  if (!result.options.predictions.empty()) write_predictions_of(result, writer.table(), heartbeat);
  if (!result.options.mistakes.empty()) writer.write_mistakes(result.options.mistakes);
}

}  // namespace carillon
