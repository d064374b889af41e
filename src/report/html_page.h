// HTML page of an evaluation: the page of each task, the parts that all pages have in common, charts, texts and tables.
// A page needs no other files and no network connection.
//
// A page has scores, learning curves, the sections of the task, pictures, and the description of the run. Equal input
// results in equal bytes, because the page has no date. A page is HTML and well-formed XML. PageFacts contains plain
// texts, which html_page() escapes. Exception: ShownPictures::title and all texts of TaskContent are HTML.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/report/evaluation_report.h"
#include "src/report/metrics.h"
#include "src/report/prediction_files.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/multilabel.h"
#include "src/tasks/regression.h"

namespace carillon {

/// Escapes `text` for an element or a quoted attribute. Control characters, text-direction marks and bytes that are not
/// UTF-8 become \xNN (printable). If the text is long, its middle is omitted.
std::string html_text(std::string_view text, std::size_t max_bytes = 200);

/// Encodes in Base64 (RFC 4648), with padding.
std::string base64(std::string_view bytes);

// Tables. All text arguments are HTML: pass any other text through html_text() first.

/// Makes a table in a box that scrolls. `kind`: CSS classes. `label`: for screen readers. `rows`: a heading row and a
/// body.
std::string table_box(std::string_view kind, std::string_view label, const std::string& rows);

/// Makes a heading row. A title that begins with # marks a column of numbers.
std::string table_heading(std::initializer_list<std::string_view> titles);

/// Makes a cell with a number.
std::string number_cell(std::string_view text);
std::string number_cell(std::int64_t count);
/// Makes a cell with a number with 4 decimals. For nullopt or NaN, the cell has a dash.
std::string number_cell(std::optional<double> number);
/// Makes a cell with the name of a class, label or number.
std::string name_cell(std::string_view name);

/// Returns the name of output `i` as HTML. If the output has no name, returns `i` as text.
std::string html_name(std::span<const std::string> names, std::size_t i);

struct ShownPictures {
  std::string title;
  std::vector<ShownPrediction> shown;
};

/// The largest number of pictures in ShownPictures::shown.
inline constexpr std::size_t max_page_pictures = 24;

/// The parts of a page that do not depend on the task.
struct PageFacts {
  EvaluatedNetwork network;
  std::string version;               ///< version of the program
  std::vector<std::string> records;  ///< patterns of the evaluated files
  std::size_t record_count = 0;
  std::vector<Score> scores;
  LearningCurves curves;
  std::vector<ShownPictures> pictures;
  std::vector<std::pair<std::string, std::string>> options;  ///< options of the training: name and value
};

/// How a page names a score.
struct ScoreText {
  std::string_view name;  ///< Score::name
  std::string_view title, meaning;
};

struct PageSection {
  std::string id, title;
  std::string html;
};

/// The parts of a page that depend on the task.
struct TaskContent {
  std::string outputs;                ///< the outputs of the task as text: "10 classes"
  std::span<const ScoreText> scores;  ///< scores in the order of the page; the first score has a learning curve
  std::vector<PageSection> sections;
  std::string_view about_pictures;  ///< explains the captions of the pictures
};

std::string html_page(const PageFacts& facts, const TaskContent& content);

/// Writes the whole page or, after an error, nothing. Errors: io.
void write_page(const std::filesystem::path& path, const std::string& page);

// Charts: inline SVG figures (html_charts.cpp). The figures use the colours of the page (html_style.h). All text
// arguments are HTML.

struct ChartLine {
  std::string name;
  std::vector<CurvePoint> points;
  bool is_second = false;  ///< true: draw the line in the second colour, with a mark at each point
};

struct LineChart {
  std::string title;
  std::vector<ChartLine> lines;            ///< the figure omits lines without points
  std::optional<double> marked_step = {};  ///< draw a vertical line at this step
  double last_step = 0.0;                  ///< the axis shows at least the steps from 0 to this step
  bool starts_at_zero = false;
};

/// Returns a figure, or an empty text if no line has points.
std::string line_chart(const LineChart& chart);

/// A predicted number of a record, and its true value.
struct PredictedNumber {
  double truth = 0.0, predicted = 0.0;
};

/// Makes a scatter chart of predicted numbers over true numbers. A line shows where both numbers are equal. `name`:
/// name of the number. Shows at most 1,500 points, which are evenly spaced in `numbers`.
std::string scatter_chart(const std::string& name, std::span<const PredictedNumber> numbers);

/// Makes a chart that shows accuracy and number of samples as functions of confidence.
std::string calibration_chart(const Calibration& calibration);

// The page of each task has the common parts and the sections of the task (html_task_pages.cpp).

/// The results that the page of a classification shows.
struct ClassResults {
  const std::vector<Prediction>& predictions;  ///< [record]
  const std::vector<ClassCounts>& classes;     ///< [class] the counts of these records
  const Calibration& calibration;
  std::span<const std::string> names = {};  ///< class names; empty: the page shows the classes' numbers
};

/// The largest number of classes in a confusion matrix. If a task has more classes, the matrix shows the classes of the
/// most frequently confused pairs.
inline constexpr std::size_t max_matrix_classes = 25;

/// Makes the page of a classification. The sections of the task are a confusion matrix with the most confused pairs, a
/// table of the classes, and a calibration chart.
std::string class_page(const PageFacts& facts, const ClassResults& results);

/// Makes the page of a multilabel task. The section of the task is a table of the labels. `names`: names of the labels;
/// empty: the page shows the labels' numbers.
std::string label_page(const PageFacts& facts, const MultilabelMetric& metric, std::span<const std::string> names);

/// The largest number of charts on the page of a regression.
inline constexpr std::size_t max_scatter_charts = 24;

/// Makes the page of a regression. The sections of the task are scatter charts of predicted over true numbers, and a
/// table of the numbers. `names`: names of the numbers; empty: the page shows "0", "1", ...
std::string number_page(const PageFacts& facts, const RegressionMetric& metric, std::span<const std::string> names);

}  // namespace carillon
