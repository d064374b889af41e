// HTML page of an evaluation: what the pages of all tasks have in common, and its texts and tables. A page needs no
// other files and no network.
//
// A page has scores, learning curves, the sections of the task, pictures, and the description of the run. Equal input
// gives equal bytes: the page has no date. It is HTML and well-formed XML. PageFacts has texts of any source, which
// html_page() makes safe, except PictureList::title; that and all texts of TaskContent are HTML.
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
#include "src/report/learning_curves.h"
#include "src/report/prediction_files.h"

namespace carillon {

/// `text` for an element or a quoted attribute. Control characters, marks of direction and bytes that are not UTF-8
/// become \xNN (printable). The middle of a long text is omitted.
std::string html_text(std::string_view text, std::size_t max_bytes = 200);

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

// Tables. All texts are HTML: html_text() makes other texts safe.

/// A table in a box that scrolls. `kind`: CSS classes. `label`: for screen readers. `rows`: a heading row and a body.
std::string table_box(std::string_view kind, std::string_view label, const std::string& rows);

/// A heading row. A title that begins with # is that of a column of numbers.
std::string table_heading(std::initializer_list<std::string_view> titles);

/// A cell with a number.
std::string number_cell(std::string_view text);
std::string number_cell(std::int64_t count);
/// With 4 decimals. No number, or NaN: a dash.
std::string number_cell(std::optional<double> number);
/// A cell with the name of a class, label or number.
std::string name_cell(std::string_view name);

/// The name of an output as HTML; its index if it has no name.
std::string html_name(std::span<const std::string> names, std::size_t i);

struct PictureList {
  std::string title;
  std::vector<ShownPrediction> shown;
};

/// The largest number of pictures in a list.
inline constexpr std::size_t max_page_pictures = 24;

/// What a page says about an evaluation of any task.
struct PageFacts {
  EvaluatedNetwork network;
  std::string version;               ///< of the program
  std::vector<std::string> records;  ///< patterns of the evaluated files
  std::size_t record_count = 0;
  std::vector<Score> scores;
  LearningCurves curves;
  std::vector<PictureList> pictures;
  std::vector<std::pair<std::string, std::string>> options;  ///< of the training: name and value
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

/// What a page says for its task.
struct TaskContent {
  std::string outputs;                ///< "10 classes"
  std::span<const ScoreText> scores;  ///< in the order of the page; the first one has a learning curve
  std::vector<PageSection> sections;
  std::string_view about_pictures;  ///< explains the captions of the pictures
};

std::string html_page(const PageFacts& facts, const TaskContent& content);

/// Writes the whole page or nothing. Errors: io.
void write_page(const std::filesystem::path& path, const std::string& page);

}  // namespace carillon
