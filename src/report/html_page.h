// HTML page of an evaluation: the page of each task, the parts that all pages have in common, charts, texts and tables.
// A page needs no other files and no network.
//
// A page has scores, learning curves, the sections of the task, pictures, and the description of the run. Equal input
// gives equal bytes: the page has no date. A page is HTML and well-formed XML. PageFacts contains plain texts, which
// html_page() escapes. Exception: ShownPictures::title and all texts of TaskContent are HTML.
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
/// UTF-8 become \xNN (printable). The middle of a long text is omitted.
std::string html_text(std::string_view text, std::size_t max_bytes = 200);

/// Base64 encoding (RFC 4648), with padding.
std::string base64(std::string_view bytes);

// Tables. All text arguments are HTML: pass any other text through html_text() first.

/// A table in a box that scrolls. `kind`: CSS classes. `label`: for screen readers. `rows`: a heading row and a body.
std::string table_box(std::string_view kind, std::string_view label, const std::string& rows);

/// A heading row. A title that begins with # marks a column of numbers.
std::string table_heading(std::initializer_list<std::string_view> titles);

/// A cell with a number.
std::string number_cell(std::string_view text);
std::string number_cell(std::int64_t count);
/// A cell with a number with 4 decimals, or a dash for nullopt or NaN.
std::string number_cell(std::optional<double> number);
/// A cell with the name of a class, label or number.
std::string name_cell(std::string_view name);

/// The name of output `i` as HTML, or the text of `i` if the output has no name.
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
  std::string outputs;                ///< "10 classes"
  std::span<const ScoreText> scores;  ///< in the order of the page; the first one has a learning curve
  std::vector<PageSection> sections;
  std::string_view about_pictures;  ///< explains the captions of the pictures
};

std::string html_page(const PageFacts& facts, const TaskContent& content);

/// Writes the whole page or nothing. Errors: io.
void write_page(const std::filesystem::path& path, const std::string& page);

// Charts: inline SVG figures (html_charts.cpp). The figures use the colours of the page (html_style.h). All text
// arguments are HTML.

struct ChartLine {
  std::string name;
  std::vector<CurvePoint> points;
  bool is_second = false;  ///< draw the line in the second colour, with a mark at each point
};

struct LineChart {
  std::string title;
  std::vector<ChartLine> lines;            ///< lines without points are omitted
  std::optional<double> marked_step = {};  ///< a vertical line at this step
  double last_step = 0.0;                  ///< the axis shows at least the steps from 0 to this step
  bool starts_at_zero = false;
};

/// A figure; empty if no line has points.
std::string line_chart(const LineChart& chart);

/// A predicted number of a record, and its true value.
struct PredictedNumber {
  double truth = 0.0, predicted = 0.0;
};

/// A scatter chart of predicted numbers over true numbers, with the line on which both are equal. `name`: name of the
/// number. Shows at most 1,500 points, evenly spaced in `numbers`.
std::string scatter_chart(const std::string& name, std::span<const PredictedNumber> numbers);

/// A chart of accuracy and number of samples as functions of confidence.
std::string calibration_chart(const Calibration& calibration);

// The page of each task: the common parts and the sections of the task (html_task_pages.cpp).

/// The results that the page of a classification shows.
struct ClassResults {
  const std::vector<Prediction>& predictions;  ///< [record]
  const std::vector<ClassCounts>& classes;     ///< [class] counts of the same records
  const Calibration& calibration;
  std::span<const std::string> names = {};  ///< class names; empty: the page shows the classes' numbers
};

/// The largest number of classes in a confusion matrix. With more classes, the matrix shows the classes of the most
/// confused pairs.
inline constexpr std::size_t max_matrix_classes = 25;

/// The page of a classification: adds a confusion matrix with the most confused pairs, a table of the classes, and a
/// calibration chart.
std::string class_page(const PageFacts& facts, const ClassResults& results);

/// The page of a multilabel task: adds a table of the labels. `names`: names of the labels; empty: the page shows the
/// labels' numbers.
std::string label_page(const PageFacts& facts, const MultilabelMetric& metric, std::span<const std::string> names);

/// The largest number of charts on the page of a regression.
inline constexpr std::size_t max_scatter_charts = 24;

/// The page of a regression: adds scatter charts of predicted over true numbers, and a table of the numbers. `names`:
/// names of the numbers; empty: the page shows "0", "1", ...
std::string number_page(const PageFacts& facts, const RegressionMetric& metric, std::span<const std::string> names);

}  // namespace carillon
