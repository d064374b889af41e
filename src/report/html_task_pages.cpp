#include "src/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "src/report/evaluation_report.h"
#include "src/tasks/classification_metric.h"

namespace carillon {
namespace {

struct ConfusedPair {
  std::size_t truth = 0, predicted = 0;
  std::int64_t count = 0;
};

/// The counts of a confusion matrix. The memory of the counts grows with the number of records, not with the number of
/// pairs of classes.
struct Confusions {
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> cells;  ///< number of records for each pair (true class,
                                                                      ///< predicted class)
  std::vector<ConfusedPair> pairs;                                    ///< the mistakes; the most frequent mistake is
                                                                      ///< the first

  explicit Confusions(const std::vector<Prediction>& predictions) {
    for (const Prediction& one : predictions) {
      cells[{static_cast<std::size_t>(one.label), static_cast<std::size_t>(one.predicted())}] += 1;
    }
    for (const auto& [cell, count] : cells) {
      if (cell.first != cell.second) pairs.push_back({cell.first, cell.second, count});
    }
    std::ranges::stable_sort(pairs, std::ranges::greater(), &ConfusedPair::count);
  }

  std::int64_t at(std::size_t truth, std::size_t predicted) const {
    const auto found = cells.find({truth, predicted});
    return found == cells.end() ? 0 : found->second;
  }
};

constexpr ScoreText class_score_texts[] = {
    {"accuracy", "Accuracy", "correct predictions"},
    {"top_5", "Top-5 accuracy", "true class among the five most probable"},
    {"balanced_accuracy", "Balanced accuracy", "mean recall of the classes"},
    {"macro_f1", "Macro F1", "mean F1 of the classes"},
    {"cross_entropy", "Cross-entropy", "mean loss; lower is better"},
    {"calibration_error", "Calibration error", "mean gap of confidence and accuracy; lower is better"}};

/// The sections of a classification.
class Sections {
 public:
  explicit Sections(const ClassResults& results) : results_(results), confusions_(results.predictions) {}

  PageSection matrix() const;
  PageSection classes() const;
  PageSection calibration() const;

 private:
  std::string name_of(std::size_t label) const { return html_name(results_.names, label); }
  std::vector<std::size_t> matrix_classes() const;
  std::string matrix_row(std::size_t truth, std::span<const std::size_t> shown) const;
  std::string pairs() const;

  const ClassResults& results_;
  Confusions confusions_;
};

/// Returns the classes in the matrix, in ascending order.
std::vector<std::size_t> Sections::matrix_classes() const {
  std::vector<std::size_t> all(results_.classes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (all.size() <= max_matrix_classes) return all;
  std::vector<std::size_t> candidates;
  for (const ConfusedPair& pair : confusions_.pairs) candidates.insert(candidates.end(), {pair.truth, pair.predicted});
  candidates.insert(candidates.end(), all.begin(), all.end());  // if the confused classes do not fill the matrix, other
                                                                // classes fill it
  std::set<std::size_t> shown;
  for (auto label = candidates.begin(); shown.size() < max_matrix_classes; ++label) shown.insert(*label);
  return {shown.begin(), shown.end()};
}

std::string Sections::matrix_row(std::size_t truth, std::span<const std::size_t> shown) const {
  const ClassCounts& of_class = results_.classes[truth];
  std::string row = fmt::format("<tr data-mistakes=\"{}\"><th scope=\"row\" title=\"{}\"><bdi>{}</bdi></th>",
                                of_class.mistakes(), name_of(truth), name_of(truth));
  std::int64_t others = of_class.support;
  for (const std::size_t predicted : shown) {
    const std::int64_t count = confusions_.at(truth, predicted);
    others -= count;
    if (count == 0) {
      row += "<td class=\"z\">0</td>";
      continue;
    }
    const double share = static_cast<double>(count) / static_cast<double>(of_class.support);
    row += fmt::format("<td class=\"{}\" style=\"--s:{:.2f}\">{}</td>", truth == predicted ? 't' : 'f',
                       0.1 + 0.45 * share, count);
  }
  if (shown.size() < results_.classes.size()) row += fmt::format("<td class=\"o\">{}</td>", others);
  return row + "</tr>\n";
}

PageSection Sections::matrix() const {
  const std::vector<std::size_t> shown = matrix_classes();
  const bool has_others = shown.size() < results_.classes.size();
  std::string rows = "<thead><tr><td>true ↓<br/>predicted →</td>";
  std::size_t longest = 0;
  for (const std::size_t label : shown) {
    const std::string name = name_of(label);
    longest = std::max(longest, name.size());
    rows += fmt::format("<th scope=\"col\" title=\"{}\"><span><bdi>{}</bdi></span></th>", name, name);
  }
  if (has_others) rows += "<th scope=\"col\" class=\"o\"><span>other classes</span></th>";
  rows += "</tr></thead><tbody>\n";
  for (const std::size_t truth : shown) rows += matrix_row(truth, shown);
  const std::string of_many = has_others ? fmt::format(" These are {} of {} classes, from the most confused pairs.",
                                                       shown.size(), results_.classes.size())
                                         : "";
  constexpr std::size_t short_name = 4;
  const char* const kind = longest > short_name || has_others ? "matrix long" : "matrix";
  const std::string note = fmt::format(
      "<p class=\"note\">Number of records by true and predicted class. The shade is the share of the true class: blue "
      "and bold on the diagonal, orange for mistakes.{}</p>\n",
      of_many);
  return {"confusion", "Confusion matrix",
          note + "<div class=\"beside\"><div class=\"part\">" + table_box(kind, "Confusion matrix", rows + "</tbody>") +
              "</div>\n<div class=\"part\">" + pairs() + "</div></div>"};
}

std::string Sections::pairs() const {
  constexpr std::size_t most = 50;
  if (confusions_.pairs.empty()) return "<p>There are no mistakes.</p>\n";
  const std::span shown(confusions_.pairs.data(), std::min(most, confusions_.pairs.size()));
  std::string rows = table_heading({"True class", "Predicted as", "#Records", "#Share of the class"}) + "<tbody>\n";
  for (const ConfusedPair& pair : shown) {
    const double share = static_cast<double>(pair.count) / static_cast<double>(results_.classes[pair.truth].support);
    rows += "<tr>" + name_cell(name_of(pair.truth)) + name_cell(name_of(pair.predicted)) + number_cell(pair.count) +
            number_cell(percent_text(share)) + "</tr>\n";
  }
  const std::string of_many =
      shown.size() < confusions_.pairs.size()
          ? fmt::format("<p class=\"note\">{} of {} pairs.</p>\n", shown.size(), confusions_.pairs.size())
          : "";
  return "<h3>Most confused pairs</h3>\n" + of_many + table_box("sort", "Most confused pairs", rows + "</tbody>");
}

PageSection Sections::classes() const {
  std::string rows =
      table_heading({"#No.", "Class", "#Records", "#Predicted", "#Correct", "#Precision", "#Recall", "#F1"}) +
      "<tbody>\n";
  for (std::size_t label = 0; label < results_.classes.size(); ++label) {
    const ClassCounts& one = results_.classes[label];
    rows += "<tr>" + number_cell(static_cast<std::int64_t>(label)) + name_cell(name_of(label));
    for (const std::int64_t count : {one.support, one.predicted, one.correct}) rows += number_cell(count);
    for (const std::optional<double>& score : {one.precision(), one.recall(), one.f1()}) rows += number_cell(score);
    rows += "</tr>\n";
  }
  return {"classes", "Classes",
          "<p class=\"note\">Precision: share of the predictions of a class that are correct. Recall: share of its "
          "records that are found. F1: their harmonic mean.</p>\n" +
              table_box("sort", "Classes", rows + "</tbody>")};
}

PageSection Sections::calibration() const {
  std::string rows =
      table_heading({"Confidence", "#Records", "#Correct", "#Accuracy", "#Mean confidence"}) + "<tbody>\n";
  constexpr auto bins = static_cast<double>(Calibration::bin_count);
  for (std::size_t i = 0; i < Calibration::bin_count; ++i) {
    const Calibration::Bin& bin = results_.calibration.bins()[i];
    rows +=
        fmt::format("<tr><td>{:.3f} – {:.3f}</td>", static_cast<double>(i) / bins, static_cast<double>(i + 1) / bins);
    rows += number_cell(bin.count) + number_cell(bin.correct) + number_cell(std::optional(bin.accuracy())) +
            number_cell(std::optional(bin.mean_confidence())) + "</tr>\n";
  }
  return {"calibration", "Calibration",
          "<p class=\"note\">The confidence of a prediction is its probability. Of well calibrated predictions with "
          "confidence 0.8, 80 % are correct: the bars end at the dashed line. Bars below the line mean too much "
          "confidence.</p>\n" +
              calibration_chart(results_.calibration) + "<details><summary>Bins as a table</summary>" +
              table_box("", "Calibration", rows + "</tbody>") + "</details>"};
}

}  // namespace

std::string class_page(const PageFacts& facts, const ClassResults& results) {
  const Sections sections(results);
  return html_page(facts, {.outputs = fmt::format("{} classes", results.classes.size()),
                           .scores = class_score_texts,
                           .sections = {sections.matrix(), sections.classes(), sections.calibration()},
                           .about_pictures = "As the network gets them, with the probability of the predicted class. "
                                             "✓ right, ✗ wrong."});
}

namespace {

constexpr ScoreText label_score_texts[] = {
    {"mean_average_precision", "Mean average precision", "mean area below the precision-recall curves"},
    {"macro_f1", "Macro F1", "mean F1 of the labels at probability 0.5"},
    {"micro_f1", "Micro F1", "F1 of all labels together at probability 0.5"},
    {"binary_cross_entropy", "Binary cross-entropy", "mean loss; lower is better"}};

PageSection label_section(const ScoreTable& table, std::span<const std::string> names) {
  std::string rows = table_heading({"#No.", "Label", "#Records", "#Predicted", "#Correct", "#Precision", "#Recall",
                                    "#F1", "#Average precision", "#Best threshold", "#F1 there"}) +
                     "<tbody>\n";
  constexpr std::size_t count_columns = 3;
  for (std::size_t label = 0; label < table.rows.size(); ++label) {
    rows += "<tr>" + number_cell(static_cast<std::int64_t>(label)) + name_cell(html_name(names, label));
    for (std::size_t column = 0; column < table.columns.size(); ++column) {
      const double value = table.rows[label][column];
      rows += column < count_columns ? number_cell(std::llround(value)) : number_cell(std::optional(value));
    }
    rows += "</tr>\n";
  }
  return {
      "labels", "Labels",
      "<p class=\"note\">A label is predicted if its probability is at least 0.5. Precision: share of the "
      "predictions of a label that are correct. Recall: share of its records that are found. F1: their harmonic "
      "mean. Average precision: area below the precision-recall curve. Best threshold: probability with the highest "
      "F1 on these records.</p>\n" +
          table_box("sort", "Labels", rows + "</tbody>")};
}

}  // namespace

std::string label_page(const PageFacts& facts, const MultilabelMetric& metric, std::span<const std::string> names) {
  return html_page(facts, {.outputs = fmt::format("{} labels", metric.labels().size()),
                           .scores = label_score_texts,
                           .sections = {label_section(metric.table(), names)},
                           .about_pictures = "As the network gets them, with their loss: the mean cross-entropy of "
                                             "their labels. ✓ all labels right, ✗ a label wrong."});
}

namespace {

constexpr ScoreText number_score_texts[] = {
    {"r2", "R2", "mean over the numbers; 1 is perfect, 0 is as good as the mean"},
    {"mae", "Mean absolute error", "mean over the numbers; lower is better"},
    {"rmse", "Root mean squared error", "mean over the numbers; lower is better"}};

/// Returns a value as text, in the unit of the number.
std::string number_text(double number) { return fmt::format("{:.5g}", number); }

std::string charts(const RegressionMetric& metric, std::span<const std::string> names) {
  std::string charts;
  std::vector<PredictedNumber> numbers(metric.samples().count());
  const std::size_t count = std::min(metric.numbers().size(), max_scatter_charts);
  for (std::size_t column = 0; column < count; ++column) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = {metric.target(i, column), metric.predicted(i, column)};
    }
    charts += scatter_chart(html_name(names, column), numbers);
  }
  return fmt::format("<div class=\"charts\">\n{}</div>\n", charts);
}

PageSection number_section(const RegressionMetric& metric, std::span<const std::string> names) {
  std::string rows = table_heading({"#No.", "Number", "#R2", "#Mean absolute error", "#Root mean squared error",
                                    "#Standard deviation of the true numbers"}) +
                     "<tbody>\n";
  for (std::size_t i = 0; i < metric.numbers().size(); ++i) {
    const NumberResult& number = metric.numbers()[i];
    rows += "<tr>" + number_cell(static_cast<std::int64_t>(i)) + name_cell(html_name(names, i)) +
            number_cell(std::optional(number.r2));
    for (const double value : {number.mae, number.rmse, number.deviation}) rows += number_cell(number_text(value));
    rows += "</tr>\n";
  }
  return {"numbers", "Numbers",
          "<p class=\"note\">A point is a record. On the dashed line, prediction and true number are equal.</p>\n" +
              charts(metric, names) + table_box("sort", "Numbers", rows + "</tbody>")};
}

}  // namespace

std::string number_page(const PageFacts& facts, const RegressionMetric& metric, std::span<const std::string> names) {
  const std::size_t count = metric.numbers().size();
  return html_page(facts,
                   {.outputs = count == 1 ? "1 number" : fmt::format("{} numbers", count),
                    .scores = number_score_texts,
                    .sections = {number_section(metric, names)},
                    .about_pictures = "As the network gets them. The error is in standard deviations of the true "
                                      "numbers; of several numbers, it is the root of the mean square."});
}

}  // namespace carillon
