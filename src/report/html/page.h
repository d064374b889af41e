// HTML page of an evaluation: what the pages of all tasks have in common. It needs no other files and no network.
//
// Scores, learning curves, the sections of the task, pictures, and the description of the run. Equal input gives equal
// bytes: the page has no date. It is HTML and well-formed XML. PageFacts has texts of any source, which html_page()
// makes safe, except PictureList::title; that and all texts of TaskContent are HTML.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/report/evaluated_network.h"
#include "src/report/html/learning_curves.h"
#include "src/report/shown_prediction.h"

namespace carillon {

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
