// HTML page of an evaluation: the parts that the pages of all tasks have in common, and functions for texts and tables.
// A page needs no other files and no network.
//
// A page has scores, learning curves, the sections of the task, pictures, and the description of the run. Equal input
// gives equal bytes: the page has no date. It is HTML and well-formed XML. PageFacts contains plain texts, which
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
#include "src/report/learning_curves.h"
#include "src/report/prediction_files.h"

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

/// The largest number of pictures in a list.
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

}  // namespace carillon
