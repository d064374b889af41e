// Task outputs: the part of an evaluation's outputs that depends on its task.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/tasks/task.h"
#include "src/report/evaluation_report.h"
#include "src/report/html_page.h"
#include "src/report/prediction_files.h"

namespace carillon {

/// The data that the outputs of a classification need.
struct OutputNeeds {
  bool has_confusion_matrix = false;  ///< TaskOutputs::write_report needs the matrix
  bool has_predictions = false;       ///< all other functions of TaskOutputs need the predictions
};

/// Records that an output shows.
struct RecordList {
  std::string title;
  std::vector<std::size_t> records;
};

class TaskOutputs {
 public:
  virtual ~TaskOutputs() = default;
  /// Writes the whole JSON or CSV report or, after an error, nothing. Errors: io; usage (the report has more than
  /// max_report_bytes bytes).
  virtual void write_report(const std::string& file, const EvaluatedNetwork& network) const = 0;
  virtual std::string page(const PageFacts& facts) const = 0;
  virtual PredictionTable table() const = 0;
  /// Returns the lists of a page. Each list has at most `count` records. The first list has the records with the worst
  /// predictions, the worst first.
  virtual std::vector<RecordList> lists(std::size_t count) const = 0;
  /// Returns the description of the record in a page, without its picture and its origin.
  virtual ShownPrediction shown(std::size_t record) const = 0;
};

/// Makes a metric for `task`. The metric also stores the data that the outputs need.
MakeMetric metric_for_outputs(TargetKind target, const Task& task, const OutputNeeds& needs);

/// Makes the outputs of a task. `metric`: a metric that metric_for_outputs made. `names`: names of the classes, labels
/// or numbers; empty: outputs show the index instead. `metric` and `names` must outlive the result.
std::unique_ptr<TaskOutputs> task_outputs(TargetKind target, const Metric& metric,
                                          const std::vector<std::string>& names);

}  // namespace carillon
