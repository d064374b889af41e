#include "src/cli/commands/evaluation_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/cli/options/run_description.h"
#include "src/core/file_tools.h"
#include "src/core/manual.h"
#include "src/data/decode/shown_records.h"
#include "src/images/picture.h"
#include "src/report/evaluation_report.h"
#include "src/report/html_page.h"
#include "src/report/metrics.h"
#include "src/report/prediction_files.h"
#include "src/report/task_outputs.h"
#include "src/train/checkpointing/saved_network.h"

namespace carillon {
namespace {

/// Returns the files that the user requested, as pairs (option, file).
std::vector<std::pair<std::string, std::string>> outputs(const EvalOptions& options) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const std::string& file : options.report) given.emplace_back("--report", file);
  if (!options.predictions.empty()) given.emplace_back("--predictions", options.predictions);
  if (!options.mistakes.empty()) given.emplace_back("--mistakes", options.mistakes);
  return given;
}

bool is_page(const std::string& file) { return report_form(file) == ReportForm::html; }

/// True if the user requested a JSON or CSV report. HTML pages do not need the confusion matrix of all classes.
bool needs_matrix(const EvalOptions& options) { return !std::ranges::all_of(options.report, is_page); }

/// True if an output needs the predictions of single records. JSON and CSV reports need only sums over the records.
bool needs_predictions(const EvalOptions& options) {
  return std::ranges::any_of(options.report, is_page) || !options.predictions.empty() || !options.mistakes.empty();
}

/// Returns the options in a checkpoint as pairs (name, value).
std::vector<std::pair<std::string, std::string>> described_options(const std::string& options_json) {
  const nlohmann::json json = nlohmann::json::parse(options_json, nullptr, false);
  std::vector<std::pair<std::string, std::string>> options;
  if (!json.is_object()) return options;
  for (const auto& [name, value] : json.items()) {
    options.emplace_back(shown_name(name), value.is_string() ? value.get<std::string>() : value.dump());
  }
  return options;
}

/// Returns a text such as "train-00000: record 17, cat.jpg".
std::string origin_text(const Dataset::Place& place, const std::string& picture) {
  return fmt::format("{}: record {}{}{}", std::filesystem::path(place.path).filename().string(), place.number,
                     picture.empty() ? "" : ", ", picture);
}

/// Writes the outputs of an evaluation.
class OutputWriter {
 public:
  OutputWriter(const EvaluationResult& result, const std::function<void()>& heartbeat)
      : result_(result),
        heartbeat_(heartbeat),
        names_(trained_target(result.loaded).names),
        task_(task_outputs(result.target, result.metric, names_)) {}

  void write_report(const std::string& file) const { task_->write_report(file, network()); }
  void write_page(const std::string& file) const;
  void write_predictions(const std::string& file) const;
  void write_mistakes(const std::string& file) const;

 private:
  EvaluatedNetwork network() const {
    const LoadedCheckpoint& loaded = result_.loaded;
    return {loaded.path.string(), loaded.state.model, result_.values, loaded.state.global_step};
  }
  /// Returns the picture names of these records. A record without a name has an empty text.
  std::vector<std::string> picture_names_of(const std::vector<std::size_t>& ascending) const;
  Picture thumbnail(std::size_t record) const;
  std::vector<ShownPrediction> shown(const std::vector<std::size_t>& records) const;

  const EvaluationResult& result_;
  const std::function<void()>& heartbeat_;
  std::vector<std::string> names_;
  std::unique_ptr<TaskOutputs> task_;
};

std::vector<std::string> OutputWriter::picture_names_of(const std::vector<std::size_t>& ascending) const {
  const std::vector<std::string>& patterns = result_.options.data.files;
  if (is_synthetic(patterns)) return std::vector<std::string>(ascending.size());
  return picture_names(expand_file_patterns(patterns), ascending, heartbeat_);
}

Picture OutputWriter::thumbnail(std::size_t record) const {
  const Dataset& dataset = result_.dataset;
  std::vector<std::uint8_t> image(dataset.image_bytes());
  std::vector<std::byte> target(dataset.target_bytes());
  dataset.read(record, record, image, target);
  return make_thumbnail(dataset.image_shape(), image, sheet_tile_side);
}

std::vector<ShownPrediction> OutputWriter::shown(const std::vector<std::size_t>& records) const {
  std::vector<std::size_t> ascending = records;
  std::ranges::sort(ascending);
  const std::vector<std::string> names = picture_names_of(ascending);
  std::vector<ShownPrediction> all;
  for (const std::size_t record : records) {
    heartbeat_();
    const auto place = std::ranges::lower_bound(ascending, record) - ascending.begin();
    ShownPrediction& one = all.emplace_back(task_->shown(record));
    one.picture = thumbnail(record);
    one.origin = origin_text(result_.dataset.place_of(record), names[static_cast<std::size_t>(place)]);
  }
  return all;
}

void OutputWriter::write_page(const std::string& file) const {
  PageFacts facts{.network = network(),
                  .version = version_line(result_.program),
                  .records = result_.options.data.files,
                  .record_count = result_.dataset.size(),
                  .scores = result_.metric.scores(),
                  .curves = read_learning_curves(result_.loaded.path.parent_path(), result_.task.loss_name),
                  .pictures = {},
                  .options = described_options(result_.loaded.state.options_json)};
  for (const RecordList& list : task_->lists(max_page_pictures)) {
    facts.pictures.push_back({list.title, shown(list.records)});
  }
  carillon::write_page(file, task_->page(facts));
}

void OutputWriter::write_predictions(const std::string& file) const {
  const PredictionTable table = task_->table();
  std::vector<std::size_t> all(table.record_count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::vector<std::string> names = picture_names_of(all);
  carillon::write_predictions(file, table, [&](std::size_t i) {
    heartbeat_();
    Dataset::Place place = result_.dataset.place_of(i);
    return RecordOrigin{std::move(place.path), place.number, names[i]};
  });
}

void OutputWriter::write_mistakes(const std::string& file) const {
  write_mistake_sheet(file, shown(task_->lists(max_sheet_mistakes).front().records));
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
    if (!files.insert(std::filesystem::weakly_canonical(std::filesystem::absolute(output_target(file)))).second) {
      fail(ExitCode::usage, "{} {}: another output has the same file", option, file);
    }
  }
}

void check_outputs_fit(const EvalOptions& options, TargetKind target, std::int64_t output_count) {
  constexpr std::int64_t most = 20'000;
  if (target != TargetKind::class_index || !needs_matrix(options) || output_count <= most) return;
  fail(ExitCode::usage,
       "--report: {} classes are too many for a confusion matrix, the limit is {}: name a page, --report FILE.html",
       output_count, most);
}

MakeMetric metric_for(const EvalOptions& options, TargetKind target, const Task& task) {
  if (output_option(options).empty()) return task.make_metric;
  return metric_for_outputs(
      target, task, {.has_confusion_matrix = needs_matrix(options), .has_predictions = needs_predictions(options)});
}

void write_outputs(const EvaluationResult& result, const std::function<void()>& heartbeat) {
  if (output_option(result.options).empty()) return;
  const OutputWriter writer(result, heartbeat);
  for (const std::string& file : result.options.report) {
    is_page(file) ? writer.write_page(file) : writer.write_report(file);
  }
  if (!result.options.predictions.empty()) writer.write_predictions(result.options.predictions);
  if (!result.options.mistakes.empty()) writer.write_mistakes(result.options.mistakes);
}

}  // namespace carillon
